"""Pods and workloads against what a real API server said: the same objects, errors and warnings."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.errors import FieldError, invalid
from steersman_cluster.kinds.meta import keep_system_fields, validate_metadata
from steersman_cluster.kinds.workloads.strategies import STRATEGIES
from steersman_cluster.objects import Object
from steersman_cluster.objects import Path as FieldPath
from steersman_cluster.schema import builtin, decode
from steersman_cluster.strategy import Strategy, User, WriteContext

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "recorded_workloads.json").read_text())
KINDS = {kind: (group, version) for group, version, kind in STRATEGIES}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Nothing:
    """A cluster in which nothing is stored."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return None

    def list(self, group: str, resource: str, namespace: str = "") -> list[Object]:
        return []


def context(subresource: str = "") -> WriteContext:
    return WriteContext(User("admin"), "2026-01-01T00:00:00Z", Nothing(), lambda count: "x" * count, subresource)


def strategy_of(kind: str) -> Strategy:
    return STRATEGIES[(*KINDS[kind], kind)]


def decoded(kind: str, sent: Object) -> Object:
    group, version = KINDS[kind]
    obj = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind, **copy.deepcopy(sent)}
    if kind == "Pod":
        # What the admission of priorities sets on the real server.
        obj["spec"] = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority", **obj["spec"]}
    assert not decode(obj, builtin(group, version, kind)).mismatch
    obj["metadata"] |= {"uid": "UID", "namespace": "w"}
    return obj


def created(kind: str, sent: Object) -> Object:
    obj, strategy = decoded(kind, sent), strategy_of(kind)
    strategy.default(obj)
    strategy.prepare_create(obj, context())
    return obj


def create_errors(kind: str, obj: Object) -> list[FieldError]:
    strategy = strategy_of(kind)
    return validate_metadata(
        obj, FieldPath("metadata"), strategy.name_rule, namespaced=True
    ) + strategy.validate_create(obj, context())


def changed(kind: str, old: Object, new: Object, subresource: str = "") -> tuple[Object, list[str]]:
    """The object as it would be stored, and the messages of its errors."""
    old, new = copy.deepcopy(old), copy.deepcopy(new)
    for stored in (old, new):
        stored["metadata"]["resourceVersion"] = "1"
    strategy, before = strategy_of(kind), copy.deepcopy(old)
    strategy.default(new)
    keep_system_fields(new, old)
    strategy.prepare_update(new, old, context(subresource))
    found = strategy.validate_update(new, old, context(subresource))
    assert old == before, "the old object was changed"
    return new, [error.message for error in found]


def plain(obj: Object) -> Any:
    obj = json.loads(json.dumps(obj))
    for field in ("uid", "namespace", "creationTimestamp"):
        obj["metadata"].pop(field, None)
    return json.loads(_UID.sub("UID", json.dumps(obj)).replace("2026-01-01T00:00:00Z", "NOW"))


@pytest.mark.parametrize("record", RECORDS, ids=[f"{item['kind']} {item['case']}" for item in RECORDS])
def test_a_new_object_gets_the_answer_of_the_real_server(record: dict[str, Any]):
    kind = record["kind"]
    obj = created(kind, record["sent"])
    errors = create_errors(kind, obj)
    if record["code"] == 422:
        status = invalid(KINDS[kind][0], kind, obj["metadata"].get("name", ""), errors).status
        found = [[cause["field"], cause["reason"], cause["message"]] for cause in status["details"]["causes"]]
        assert found == record["causes"]
        return
    assert [error.message for error in errors] == []
    assert plain(obj) == record["answer"]
    assert list(strategy_of(kind).warnings(obj, None, context())) == record["warnings"]


@pytest.mark.parametrize("record", RECORDS, ids=[f"{item['kind']} {item['case']}" for item in RECORDS])
def test_defaulting_twice_changes_nothing(record: dict[str, Any]):
    strategy = strategy_of(record["kind"])
    obj = decoded(record["kind"], record["sent"])
    strategy.default(obj)
    again = copy.deepcopy(obj)
    strategy.default(again)
    assert again == obj


def pod(**spec: Any) -> Object:
    obj = created("Pod", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}})
    assert create_errors("Pod", obj) == []
    return obj


def deployment() -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return created(
        "Deployment",
        {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
    )


def edited(obj: Object, *path: Any, to: Any) -> Object:
    new: Any = copy.deepcopy(obj)
    inner = new
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return new


def test_the_image_of_a_pod_may_change_and_counts_as_a_generation():
    new, errors = changed("Pod", pod(), edited(pod(), "spec", "containers", 0, "image", to="y"))
    assert errors == []
    assert new["metadata"]["generation"] == 2


def test_hardly_anything_else_of_a_pod_may_change():
    _, errors = changed("Pod", pod(), edited(pod(), "spec", "hostname", to="other"))
    assert errors[0].startswith("spec: Forbidden: pod updates may not change fields other than")


def test_containers_are_neither_added_nor_removed():
    _, errors = changed("Pod", pod(), edited(pod(), "spec", "containers", to=[]))
    assert "spec.containers: Forbidden: pod updates may not add or remove containers" in errors


def test_tolerations_are_only_added():
    old = pod(tolerations=[{"key": "a", "operator": "Exists"}])
    more = [*old["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]
    assert changed("Pod", old, edited(old, "spec", "tolerations", to=more))[1] == []
    assert changed("Pod", old, edited(old, "spec", "tolerations", to=[]))[1] == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_a_main_write_keeps_the_status_and_a_status_write_all_else():
    old = pod()
    assert changed("Pod", old, edited(old, "status", "phase", to="Running"))[0]["status"]["phase"] == "Pending"
    new = edited(edited(old, "status", "phase", to="Running"), "spec", "hostname", to="z")
    stored, errors = changed("Pod", old, new, "status")
    assert errors == []
    assert stored["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert stored["spec"] == old["spec"]


def test_the_quality_of_service_never_changes():
    _, errors = changed("Pod", pod(), edited(pod(), "status", "qosClass", to="Guaranteed"), "status")
    assert errors == ['status.qosClass: Invalid value: "Guaranteed": field is immutable']


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "grace"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -3, 1),
        ({"nodeName": "n"}, "Succeeded", None, 0),
        ({"nodeName": "n"}, "Failed", 9, 0),
    ],
)
def test_a_pod_gets_time_to_stop_only_where_somebody_has_to_stop_it(
    spec: dict[str, Any], phase: str, asked: int | None, grace: int
):
    obj = edited(pod(**spec), "status", "phase", to=phase)
    assert strategy_of("Pod").grace(obj, asked) == grace


def test_a_deployments_selector_is_immutable():
    new = edited(deployment(), "spec", "selector", to={"matchLabels": {"a": "c"}})
    _, errors = changed("Deployment", deployment(), new)
    assert 'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable' in errors


def test_a_status_write_counts_no_generation():
    new, errors = changed("Deployment", deployment(), edited(deployment(), "status", to={"replicas": 1}), "status")
    assert errors == []
    assert new["metadata"]["generation"] == 1


def test_a_daemon_set_counts_the_changes_of_its_template():
    spec = {key: deployment()["spec"][key] for key in ("selector", "template")}
    old = created("DaemonSet", {"metadata": {"name": "d"}, "spec": spec})
    new, errors = changed("DaemonSet", old, edited(old, "spec", "template", "spec", "hostname", to="h"))
    assert errors == []
    assert new["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}
    assert new["metadata"]["generation"] == 2


def test_a_jobs_template_is_fixed_once_it_runs():
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    old = created("Job", {"metadata": {"name": "j"}, "spec": spec})
    new = edited(old, "spec", "template", "spec", "containers", 0, "image", to="y")
    _, errors = changed("Job", old, new)
    assert errors[-1].startswith("spec.template: Invalid value: ")
    assert errors[-1].endswith(": field is immutable")
    assert changed("Job", old, edited(old, "spec", "parallelism", to=3))[1] == []


def row(**status: Any) -> list[Any]:
    obj = {**pod(initContainers=[{"name": "i", "image": "x"}]), "status": status}
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return strategy_of("Pod").row(obj, 1767225600 + 125)


def test_rows_of_pods_read_as_in_kubectl():
    assert row(phase="Pending")[:5] == ["p", "0/1", "Pending", "0", "2m5s"]
    waiting = [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]
    assert row(phase="Pending", initContainerStatuses=waiting)[2] == "Init:0/1"
    failed = [{"name": "i", "restartCount": 2, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]
    assert row(phase="Pending", initContainerStatuses=failed)[2:4] == ["Init:Error", "2"]
    crashing = {
        "name": "c",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:01:05Z"}},
    }
    assert row(phase="Running", containerStatuses=[crashing])[2:4] == ["CrashLoopBackOff", "3 (60s ago)"]
    ready = {"name": "c", "ready": True, "state": {"running": {}}}
    assert row(phase="Running", containerStatuses=[ready])[1:3] == ["1/1", "Running"]
    done = {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    assert row(phase="Succeeded", containerStatuses=[done])[1:3] == ["0/1", "Completed"]


def test_a_deleted_pod_reads_terminating():
    obj = pod(nodeName="n")
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert strategy_of("Pod").row(obj, 0)[2] == "Terminating"
