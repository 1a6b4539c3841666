"""The stage Finalize: directories on nodes are deleted with the object, after the members have ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from steersman import Condition, LabelSelector, ObjectMeta
from steersman import replace as evolve
from steersman.k8s import Pod, PodSpec, PodTemplateSpec, StatefulSet, StatefulSetSpec
from steersman.testing import EmbeddedCluster, Operators, eventually

from rocketmq.directories import FINALIZER, Cleanup, cleanup, job, must_delete
from tests.test_broker_plan import broker

PROJECT = Path(__file__).parents[1]
KIND = "brokers.rocketmq.daocloud.io"
LABELS = {"rocketmq.daocloud.io/broker": "mq"}


def fields(**changes):
    of = broker(groups=[0])
    return evolve(of.spec, storage_mode="HostPath", host_path="/data/mq", storage_reclaim_policy="Delete", **changes)


def pod(name="mq-0-0-0", node="n1"):
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(node_name=node))


def made(name="mq-0-0-0", node="n1", *, suspend=True, ended=""):
    found = job(fields(), "rocketmq", name, node, ObjectMeta(namespace="shop", labels=LABELS))
    conditions = (Condition(type=ended, status="True"),) if ended else ()
    return evolve(found, spec=evolve(found.spec, suspend=suspend), status=evolve(found.status, conditions=conditions))


SETS = (
    StatefulSet(
        metadata=ObjectMeta(name="mq-0-0"),
        spec=StatefulSetSpec(selector=LabelSelector(), template=PodTemplateSpec(), service_name="mq"),
    ),
)


def test_only_directories_with_the_policy_delete_are_deleted():
    assert must_delete(fields())
    assert not must_delete(evolve(fields(), storage_reclaim_policy="Retain"))
    assert not must_delete(evolve(fields(), storage_mode="EmptyDir"))


def test_the_node_of_a_member_is_stored_before_the_member_stops():
    assert cleanup(SETS, [pod()], []) == Cleanup(suspend=(pod(),))
    assert cleanup(SETS, [pod()], [made()]) == Cleanup(stop=SETS)


def test_no_job_runs_before_the_last_pod_has_ended():
    found = cleanup([], [pod("mq-0-1-0")], [made(), made("mq-0-1-0")])
    assert found == Cleanup(waiting="Pods have not ended: mq-0-1-0")
    assert cleanup([], [], [made()]).run == (made(),)


def test_the_object_is_deleted_when_the_last_job_has_completed():
    running = made("mq-0-1-0", suspend=False)
    completed = made(suspend=False, ended="Complete")
    assert cleanup([], [], [completed, running]).remove == (completed,)
    assert "mq-0-1-0-cleanup" in cleanup([], [], [running]).waiting
    assert cleanup([], [], []).done


def test_a_failed_job_is_reported_with_the_way_out():
    found = cleanup([], [], [made(suspend=False, ended="Failed")])
    assert found.failed
    assert not found.done
    assert "set storageReclaimPolicy to Retain" in found.waiting


def test_a_member_that_no_node_has_is_not_waited_for():
    assert cleanup([], [pod(node="")], []).done


def test_a_job_runs_on_the_node_of_the_member_and_deletes_its_directory_alone():
    found = made(node="n7").spec.template.spec
    assert found.node_name == "n7"
    assert found.volumes[0].host_path is not None
    assert found.volumes[0].host_path.path == "/data/mq"
    assert found.containers[0].command == ("sh", "-c", "rm -rf /host/mq-0-0-0")


def test_the_policy_retain_ends_a_cleanup_that_cannot_complete(api, operator):
    """The Pods of Jobs do not end on simulated nodes."""
    operator("rocketmq:operator")
    api.apply(stored(Path("/data/mq"), "Delete"))
    eventually(lambda: len(api.list("pods")) == 2, what="the members run", within=30)
    assert api.wait(KIND, "mq", lambda found: found["metadata"].get("finalizers") == [FINALIZER])
    api.delete(KIND, "mq")
    eventually(lambda: running_jobs(api) == ["mq-0-0-0-cleanup", "mq-0-1-0-cleanup"], what="the Jobs run", within=60)
    assert api.get(KIND, "mq"), "the Broker exists until the Jobs have completed"
    api.patch(KIND, "mq", {"spec": {"storageReclaimPolicy": "Retain"}})
    eventually(lambda: api.get(KIND, "mq") is None, what="the Broker is deleted", within=30)
    eventually(lambda: api.list("jobs") == [], what="the Jobs are deleted", within=30)


def running_jobs(api) -> list[str]:
    """Return the names of the Jobs that may run; their members have ended."""
    assert not [each for each in api.list("jobs") if not each["spec"]["suspend"]] or not api.list("statefulsets")
    return sorted(each["metadata"]["name"] for each in api.list("jobs") if not each["spec"]["suspend"])


@pytest.mark.slow
def test_a_deleted_broker_takes_its_directories_with_it_and_another_policy_keeps_them(tmp_path):
    """The server is a script that writes a file, because the stage needs no broker that answers."""
    server = tmp_path / "server"
    server.mkdir()
    (server / "mqbroker").write_text("echo data > /var/lib/rocketmq/file\ntrap exit TERM\nsleep 1000 &\nwait\n")
    images = tmp_path / "images.yaml"
    images.write_text(json.dumps({"images": {"rocketmq": {"workingDir": str(server)}}}))
    data = tmp_path / "data"
    try:
        started = EmbeddedCluster.start(nodes=1, node_kind="process", images=images, network="namespaces")
    except OSError as problem:
        pytest.skip(f"Pods cannot have networks of their own here: {problem}")
    with started as cluster:
        cluster.create_namespace("shop")
        with cluster.test("shop"):
            cluster.apply(PROJECT / "config" / "crd" / "bases")
            operators = Operators(cluster)
            operators("rocketmq:operator", namespaces=("shop",), settings={"shutdown_grace": 0.0})
            try:
                for policy in ("Retain", "Delete"):
                    cluster.apply(stored(data, policy))
                    files = [data / f"mq-0-{member}-0/file" for member in range(2)]
                    eventually(
                        lambda files=files: all(map(Path.exists, files)), what="the members have data", within=60
                    )
                    finalizers = cluster.get(KIND, "mq")["metadata"].get("finalizers", [])
                    assert (FINALIZER in finalizers) is (policy == "Delete")
                    cluster.delete(KIND, "mq")
                    eventually(lambda: cluster.get(KIND, "mq") is None, what="the Broker is deleted", within=120)
                    eventually(lambda: not cluster.list("pods"), what="the Pods are deleted", within=120)
                    assert [path.exists() for path in files] == [policy == "Retain"] * 2
                    for path in files:
                        path.unlink(missing_ok=True)
                assert cluster.list("jobs") == []
            finally:
                operators.close()


def stored(data: Path, policy: str) -> dict[str, object]:
    return {
        "apiVersion": "rocketmq.daocloud.io/v1",
        "kind": "Broker",
        "metadata": {"name": "mq"},
        "spec": {
            "clusterMode": "STATIC",
            "brokerImage": "rocketmq",
            "storageMode": "HostPath",
            "hostPath": str(data),
            "storageReclaimPolicy": policy,
        },
    }
