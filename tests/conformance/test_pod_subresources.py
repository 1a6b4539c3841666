"""The subresources of Pods: binding, ephemeral containers, resize, status, streams without a node. Both alike."""

from typing import Any

import pytest

from .harness import Both
from .steps import PODS, Step, play, pod

POD = f"{PODS}/web"
PLACED = pod(spec={"nodeName": "n"})
DEBUGGER = {"name": "d", "image": "i", "targetContainerName": "a"}


def binding(name: str = "web", target: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": "n"} if target is None else target,
    }


SEQUENCES: dict[str, list[Step]] = {
    "binding": [
        ("POST", PODS, pod()),
        ("POST", f"{POD}/binding", binding("other")),
        ("POST", f"{POD}/binding", {}),
        ("POST", f"{POD}/binding?dryRun=All", binding()),
        ("GET", POD),
        ("POST", f"{POD}/binding", binding(annotations={"a": "b"}, labels={"c": "d"})),
        ("GET", POD),
        ("POST", f"{POD}/binding", binding()),
        ("POST", f"{PODS}/nope/binding", binding("nope")),
        ("GET", f"{POD}/binding"),
        ("POST", f"{POD}/binding", {"kind": "Pod", "apiVersion": "v1", **binding()}),
        ("POST", f"{POD}/binding", "{"),
    ],
    "bindings without a Pod in the path": [
        ("POST", PODS, pod()),
        ("POST", "/api/v1/namespaces/{ns}/bindings", binding()),
        ("GET", POD),
        ("POST", "/api/v1/namespaces/{ns}/bindings", binding("nope")),
        ("GET", "/api/v1/namespaces/{ns}/bindings"),
    ],
    "gated Pods are not bound": [
        ("POST", PODS, pod(spec={"schedulingGates": [{"name": "example.com/g"}]})),
        ("POST", f"{POD}/binding", binding()),
        ("MERGE", POD, {"spec": {"schedulingGates": []}}),
        ("POST", f"{POD}/binding", binding()),
        ("GET", POD),
    ],
    "Pods that end are not bound": [
        ("POST", PODS, pod(finalizers=["example.com/hold"])),
        ("DELETE", POD),
        ("POST", f"{POD}/binding", binding()),
        ("MERGE", POD, {"metadata": {"finalizers": None}}),
    ],
    "ephemeral containers": [
        ("POST", PODS, PLACED),
        ("GET", f"{POD}/ephemeralcontainers"),
        ("STRATEGIC", f"{POD}/ephemeralcontainers", {"spec": {"ephemeralContainers": [DEBUGGER]}}),
        ("STRATEGIC", f"{POD}/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "a", "image": "i"}]}}),
        ("STRATEGIC", f"{POD}/ephemeralcontainers", {"spec": {"containers": [{"name": "a", "image": "other"}]}}),
        ("GET", POD),
        ("STRATEGIC", f"{PODS}/nope/ephemeralcontainers", {}),
    ],
    "resize": [
        ("POST", PODS, PLACED),
        ("GET", f"{POD}/resize"),
        ("STRATEGIC", f"{POD}/resize", {"spec": {"containers": [{"name": "a",
            "resources": {"limits": {"cpu": "x"}}}]}}),
        ("STRATEGIC", f"{POD}/resize", {"spec": {"containers": [{"name": "a", "image": "other"}]}}),
        ("STRATEGIC", f"{POD}/resize", {"metadata": {"labels": {"a": "b"}}}),
        ("GET", POD),
    ],
    "status": [
        ("POST", PODS, {**pod(), "status": {"phase": "Running"}}),
        ("STRATEGIC", f"{POD}/status", {"status": {"phase": "Running", "message": "m"}}),
        ("STRATEGIC", f"{POD}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        ("STRATEGIC", f"{POD}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ("MERGE", f"{POD}/status", {"spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}}),
        ("MERGE", POD, {"status": {"phase": "Failed"}}),
        ("GET", f"{POD}/status"),
    ],
    "streams of Pods that have no node": [
        ("POST", PODS, pod()),
        ("GET", f"{POD}/log"),
        ("GET", f"{POD}/log?container=a"),
        ("GET", f"{POD}/log?container=nope"),
        ("GET", f"{PODS}/nope/log"),
        ("GET", f"{PODS}/nope/exec"),
        ("GET", f"{PODS}/nope/attach"),
        ("GET", f"{PODS}/nope/portforward"),
        ("GET", f"{POD}/exec?command=ls"),
        ("GET", f"{POD}/attach"),
    ],
    "logs are asked for sensibly": [
        ("POST", PODS, pod()),
        ("GET", f"{POD}/log?tailLines=x"),
        ("GET", f"{POD}/log?tailLines=-1"),
        ("GET", f"{POD}/log?sinceSeconds=0"),
        ("GET", f"{POD}/log?limitBytes=0"),
        ("GET", f"{POD}/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z"),
        ("GET", f"{POD}/log?sinceTime=yesterday"),
    ],
    "Pods of several containers": [
        ("POST", PODS, pod(spec={"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}],
                                 "initContainers": [{"name": "c", "image": "i"}]})),
        ("GET", f"{POD}/log"),
        ("GET", f"{POD}/log?container=c"),
        ("GET", f"{POD}/exec?command=ls"),
    ],
    "subresources that do not exist": [
        ("POST", PODS, pod()),
        ("GET", f"{POD}/scale"),
        ("GET", f"{POD}/eviction"),
        ("DELETE", f"{POD}/log"),
        ("PUT", f"{POD}/exec", {}),
        ("POST", f"{POD}/status", {}),
        ("GET", f"{POD}/token"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in SEQUENCES.items()])
async def test_a_sequence_is_answered_alike(both: Both, steps: list[Step]):
    differences: list[str] = []
    for step in steps:
        try:
            await play(both, step)
        except AssertionError as error:
            differences.append(str(error)[:1500])
    assert not differences, "\n\n".join(differences)
