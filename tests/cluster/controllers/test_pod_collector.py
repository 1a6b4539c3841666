"""The Pod garbage collector, with short periods, against a real and an embedded API server."""

import os

import pytest

from steersman.client import Client
from steersman.client.config import load_config
from steersman.k8s import Node, Pod
from steersman.models import ObjectMeta, from_dict
from steersman_cluster.controllers.pod_collector import OUT_OF_SERVICE, excess_terminated, is_out_of_service
from steersman_cluster.controllers.thread import running

from .api_servers import plane_of
from .conftest import Lab

FINALIZER = "example.com/hold"


@pytest.fixture(scope="module", params=["real", "embedded"])
def plane(request):
    options = {"podcollector": {"period": 0.2, "quarantine": 1.0}}
    only = ["podcollector", "namespace"]
    with plane_of(request.param, 0) as cluster, running(cluster.config, only=only, options=options):
        yield cluster


@pytest.fixture
async def lab(plane):
    name = f"test-{os.urandom(5).hex()}"
    async with Client(load_config(plane.kubeconfig)) as client:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await client.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        )
        yield Lab(client, name, plane)
        await client.raw.request("DELETE", f"/api/v1/namespaces/{name}")


def pod(name, *, finalizers=(), node=None):
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    if node is not None:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": spec}


async def test_an_unscheduled_pod_that_a_finalizer_holds_becomes_failed(lab):
    await lab.create(Pod, pod("held", finalizers=[FINALIZER]))
    await lab.delete(Pod, "held")
    held = await lab.until(Pod, "held", lambda p: p.status.phase == "Failed", "has failed")
    assert "DisruptionTarget" not in [c.type for c in held.status.conditions]
    await lab.patch(Pod, "held", {"metadata": {"finalizers": None}})

    async def gone():
        return await lab.find(Pod, "held") is None

    await lab.eventually(gone, "the Pod is gone")


async def test_a_pod_of_a_node_that_is_gone_fails_with_the_reason_and_is_deleted(lab):
    await lab.create(Pod, pod("lost", node="nowhere", finalizers=[FINALIZER]))
    lost = await lab.until(Pod, "lost", lambda p: p.metadata.deletion_timestamp is not None, "is being deleted")
    assert lost.status.phase == "Failed"
    (condition,) = [c for c in lost.status.conditions if c.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "DeletionByPodGC")
    assert condition.message == "PodGC: node no longer exists"
    await lab.patch(Pod, "lost", {"metadata": {"finalizers": None}})


async def test_a_pod_of_a_node_that_comes_within_the_quarantine_stays(lab):
    name = f"late-{os.urandom(4).hex()}"
    await lab.create(Pod, pod("early", node=name))
    await lab.client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await lab.create(Pod, pod("lost", node="nowhere"))

    async def gone():
        return await lab.find(Pod, "lost") is None

    await lab.eventually(gone, "the Pod of a missing node is gone")
    early = await lab.get(Pod, "early")
    assert (early.metadata.deletion_timestamp, early.status.phase) == (None, "Pending")
    await lab.client.delete(Node, name)


def terminated(name, phase, *, seconds=0, reason=None):
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T00:00:{seconds:02}Z"}
    return from_dict(Pod, {"metadata": metadata, "status": {"phase": phase, "reason": reason}})


def test_evicted_and_old_pods_are_the_first_above_the_threshold():
    pods = [
        terminated("new", "Succeeded", seconds=30),
        terminated("old", "Failed", seconds=10),
        terminated("evicted", "Failed", seconds=50, reason="Evicted"),
        terminated("runs", "Running"),
        terminated("same", "Succeeded", seconds=30),
    ]
    assert [p.metadata.name for p in excess_terminated(pods, 1)] == ["evicted", "old", "new"]
    assert excess_terminated(pods, 4) == []
    assert excess_terminated(pods, 0) == [], "a threshold of 0 keeps all"


@pytest.mark.parametrize(("ready", "key", "expected"), [
    ("False", OUT_OF_SERVICE, True), ("Unknown", OUT_OF_SERVICE, True), ("True", OUT_OF_SERVICE, False),
    ("False", "example.com/other", False),
])  # fmt: skip
def test_a_node_is_out_of_service_if_it_is_not_ready_and_tainted(ready, key, expected):
    node = from_dict(
        Node,
        {
            "spec": {"taints": [{"key": key, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
    )
    assert is_out_of_service(node) is expected
    assert not is_out_of_service(Node(metadata=ObjectMeta(name="new")))
