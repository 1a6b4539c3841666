"""A node does not process the watch event of its own status write like a change of the Pod."""

import copy
from typing import Any

import pytest

from steersman_cluster.nodes.agent import is_echo
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_lifecycle import begin
from steersman_cluster.nodes.status import status_of

SCHEDULED = {"type": "PodScheduled", "status": "True"}
POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "5"},
    "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [SCHEDULED]},
}


def written() -> tuple[NodePod, dict[str, Any]]:
    """Return the record of a Pod after a status write, and the version of the Pod that the write has made."""
    node_pod = NodePod(begin(POD, 100.0, adopt=False), "node")
    node_pod.sent = status_of(node_pod.pod_state, "10.0.0.1", 100.0)
    pod = copy.deepcopy(POD)
    pod["metadata"]["resourceVersion"] = "6"
    own = copy.deepcopy(node_pod.sent)
    pod["status"] = {**pod["status"], **own, "conditions": [SCHEDULED, *own["conditions"]]}
    return node_pod, pod


def test_the_version_that_a_status_write_has_made_is_an_echo() -> None:
    node_pod, pod = written()
    assert is_echo(node_pod, pod)


def change_label(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"] = {"a": "b"}


def delete(pod: dict[str, Any]) -> None:
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"


def change_image(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["image"] = "app:2"


def change_phase(pod: dict[str, Any]) -> None:
    pod["status"]["phase"] = "Running"


def add_gate(pod: dict[str, Any]) -> None:
    pod["status"]["conditions"].append({"type": "example.com/gate", "status": "True"})


def change_own_condition(pod: dict[str, Any]) -> None:
    pod["status"]["conditions"][-1]["status"] = "Unknown"


def drop_others(pod: dict[str, Any]) -> None:
    del pod["status"]["qosClass"]


@pytest.mark.parametrize(
    "change", [change_label, delete, change_image, change_phase, add_gate, change_own_condition, drop_others]
)
def test_a_version_with_another_change_is_no_echo(change: Any) -> None:
    node_pod, pod = written()
    change(pod)
    assert not is_echo(node_pod, pod)


def test_nothing_is_an_echo_before_the_first_write_and_after_a_failed_one() -> None:
    node_pod, pod = written()
    node_pod.sent = {}
    assert not is_echo(node_pod, pod)
