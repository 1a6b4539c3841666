"""HelloApp on a real node while its Pods, its node's kubelet and the API server are killed, stopped and replaced.

The audit log shows at the end that no deposed leader has written anything, and that no request lacked a permission or
had an invalid token.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.installation import Installed, installed, package
from tests.node.leadership import (
    Changes,
    credential,
    longest_gap_seconds,
    refused_credentials,
    terms,
    writes,
    writes_of_deposed_leaders,
)
from tests.node.measurements import Measurements
from tests.node.operator_images import operator_image

pytestmark = pytest.mark.node

_LEASE_SECONDS = 15
_MEMORY_LIMIT = "80Mi"
_ALLOCATE = """
import os, time
for _ in range(15):
    if os.fork() == 0:
        kept = bytearray(b"x" * 12_000_000)
        break
time.sleep(60)
"""
"""More memory than the limit in all, but less in each process than the operator has."""


@pytest.fixture(scope="module")
def operator(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    image = operator_image("helloapp")
    node.import_images(image.archive)
    shipped = package("helloapp", tmp_path_factory.mktemp("recovery"), image)
    with installed(node, shipped) as found:
        yield found


@pytest.fixture(scope="module")
def pair(node: RealNode, operator: Installed) -> Installed:
    """The operator with two replicas."""
    node.scale("deployment", operator.name, 2, namespace=operator.namespace)
    operator.wait_available()
    return operator


@pytest.fixture
def changes(node: RealNode, operator: Installed, namespace: str) -> Iterator[Changes]:
    """Changes during the test, all of which are deployed at the end."""
    found = Changes(node, namespace)
    with found.running():
        eventually(lambda: found.count > 2, within=30, what="the first changes")
        yield found
    eventually(found.deployed, within=60, what="the deployment of the last change")
    node.delete("helloapps.apps.anupam.com", "changed", namespace=namespace, wait=True)


def _uid(pod: dict[str, Any]) -> str:
    return pod["metadata"]["uid"]


def _restarts(pod: dict[str, Any]) -> int:
    (status,) = pod["status"]["containerStatuses"]
    return status["restartCount"]


def _wait_for_another(operator: Installed, before: dict[str, Any]) -> None:
    eventually(lambda: _uid(operator.leader()) != _uid(before), within=60, what="another leader")


def _delete_now(operator: Installed, pod: dict[str, Any]) -> None:
    """Delete the object of a Pod without waiting for the end of its processes."""
    words = [pod["metadata"]["name"], f"--namespace={operator.namespace}", "--wait=false"]
    operator.node.kubectl("delete", "pod", *words, "--force", "--grace-period=0")


def _limit_memory(operator: Installed) -> None:
    resources = {"limits": {"memory": _MEMORY_LIMIT}, "requests": {"memory": _MEMORY_LIMIT}}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "manager", "resources": resources}]}}}}
    where = [operator.name, f"--namespace={operator.namespace}"]
    operator.node.kubectl("patch", "deployment", *where, "--patch", json.dumps(patch))
    operator.wait_available()


@pytest.mark.gate
def test_another_pod_leads_when_the_leaders_pod_is_deleted(
    node: RealNode, operator: Installed, changes: Changes, measurements: Measurements
) -> None:
    before = operator.leader()
    began = time.time()
    node.kubectl("delete", "pod", f"--namespace={operator.namespace}", before["metadata"]["name"], "--wait=false")
    _wait_for_another(operator, before)
    measurements.seconds("HelloApp: Pod of the leader deleted until another leads", operator.led_since() - began, 4)
    operator.wait_available()


@pytest.mark.gate
def test_a_killed_leader_leads_again_after_its_restart(
    node: RealNode, operator: Installed, changes: Changes, measurements: Measurements
) -> None:
    """The identity in the Lease contains the Pod's UID, so that the Pod does not wait for the end of its own Lease."""
    pod = operator.leader()
    acquired = operator.led_since()
    began = time.time()
    node.inside("kill", f"-{signal.SIGKILL.value}", str(operator.process(pod).pid))
    eventually(lambda: operator.led_since() != acquired, within=60, what="the new leadership")
    assert _uid(operator.leader()) == _uid(pod)
    measurements.seconds("HelloApp: leader killed until its Pod leads again", operator.led_since() - began, 4)
    operator.wait_available()
    assert _restarts(operator.leader()) == 1


def test_a_standby_leads_when_the_leader_is_killed_and_its_pod_does_not_return(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    before = pair.leader()
    process = pair.process(before)
    began = time.time()
    node.inside("kill", f"-{signal.SIGKILL.value}", str(process.pid))
    _delete_now(pair, before)
    _wait_for_another(pair, before)
    measurements.seconds(
        "HelloApp: leader killed and its Pod deleted until a standby leads", pair.led_since() - began, _LEASE_SECONDS
    )
    pair.wait_available()


@pytest.mark.gate
def test_a_standby_leads_when_the_leader_hangs_and_the_deposed_leader_writes_nothing(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    before = pair.leader()
    process = str(pair.process(before).pid)
    began = time.time()
    node.inside("kill", f"-{signal.SIGSTOP.value}", process)
    _wait_for_another(pair, before)
    measurements.seconds("HelloApp: leader stopped until a standby leads", pair.led_since() - began, _LEASE_SECONDS)
    reached = changes.count
    node.inside("kill", f"-{signal.SIGCONT.value}", process)
    eventually(lambda: changes.count > reached + 5, within=60, what="changes after the deposed leader continues")
    pair.wait_available()
    assert writes_of_deposed_leaders(pair) == []


def test_a_drain_replaces_one_replica_after_the_other(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    """The disruption budget lets the second Pod go when the first one has a ready successor."""
    before = {_uid(pod) for pod in pair.pods()}
    (name,) = (one["metadata"]["name"] for one in node.list("nodes"))
    words = [f"--pod-selector=app.kubernetes.io/name={pair.name}", "--delete-emptydir-data", "--timeout=120s"]
    began = time.time()
    with subprocess.Popen(
        [str(node.binaries.kubectl()), f"--kubeconfig={node.kubeconfig}", "drain", name, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as drain:
        try:
            eventually(lambda: len(before & {_uid(p) for p in pair.pods()}) == 1, within=60, what="the first eviction")
            assert drain.poll() is None
        finally:
            node.kubectl("uncordon", name)
        output, _ = drain.communicate(timeout=120)
    assert drain.returncode == 0, output
    assert "disruption budget" in output
    pair.wait_available()
    assert not before & {_uid(pod) for pod in pair.pods()}
    measurements.seconds("HelloApp: drain, longest time without a leader", longest_gap_seconds(pair, began))


def test_a_rolling_upgrade_of_two_replicas(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    before = {_uid(pod) for pod in pair.pods()}
    began = time.time()
    _limit_memory(pair)
    eventually(lambda: len(node.list("pods", namespace=pair.namespace)) == 2, within=120, what="the end of old Pods")
    assert not before & {_uid(pod) for pod in pair.pods()}
    measurements.seconds(
        "HelloApp: rolling upgrade of two replicas, longest time without a leader", longest_gap_seconds(pair, began), 1
    )


def test_a_leader_without_memory_is_killed_and_leads_again(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    """Each of the other processes in its container is smaller, so the kernel kills the operator."""
    _limit_memory(pair)
    pod = pair.leader()
    acquired = pair.led_since()
    words = [f"--namespace={pair.namespace}", pod["metadata"]["name"], "--", "python", "-c", _ALLOCATE]
    began = time.time()
    subprocess.run(
        [str(node.binaries.kubectl()), f"--kubeconfig={node.kubeconfig}", "exec", *words],
        capture_output=True,
        timeout=60,
        check=False,
    )
    eventually(lambda: pair.led_since() != acquired, within=60, what="the new leadership")
    measurements.seconds("HelloApp: leader out of memory until there is a leader", pair.led_since() - began, 4)
    pair.wait_available()
    (now,) = (one for one in pair.pods() if _uid(one) == _uid(pod))
    assert _restarts(now) == 1
    assert now["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "OOMKilled"


@pytest.mark.slow
def test_a_token_that_the_kubelet_rotates_is_used(node: RealNode, pair: Installed, changes: Changes) -> None:
    """A kubelet that starts again requests new tokens for the Pods that run."""
    leader = pair.leader()
    restarts = sorted(_restarts(pod) for pod in pair.pods())
    before = {credential(event) for event in writes(pair)}
    node.restart_kubelet()
    began = time.time()
    eventually(
        lambda: {credential(event) for event in writes(pair, began)} - before,
        within=180,
        what="writes with another token",
    )
    assert _uid(pair.leader()) == _uid(leader)
    assert sorted(_restarts(pod) for pod in pair.pods()) == restarts


def test_no_deposed_leader_wrote_and_no_request_was_refused(pair: Installed) -> None:
    """Checks the effects of all tests before."""
    assert terms(pair)
    assert writes_of_deposed_leaders(pair) == []
    assert pair.refusals() == []
    assert refused_credentials(pair) == []


def test_the_leader_continues_after_a_restart_of_the_api_server(
    node: RealNode, pair: Installed, changes: Changes, measurements: Measurements
) -> None:
    restarts = sorted(_restarts(pod) for pod in pair.pods())
    leader = pair.leader()
    reached = changes.count
    node.restart_apiserver()
    began = time.time()
    eventually(lambda: changes.count > reached + 5, within=60, what="changes after the restart")
    eventually(lambda: writes(pair, began), within=60, what="writes of the operator after the restart")
    measurements.seconds(
        "HelloApp: API server ready again until the operator writes",
        writes(pair, began)[0].received.timestamp() - began,
    )
    assert _uid(pair.leader()) == _uid(leader)
    assert sorted(_restarts(pod) for pod in pair.pods()) == restarts
    pair.wait_available()
    # A server that starts may refuse a request until it has read all roles.
    assert pair.refusals(began) == []
    assert writes_of_deposed_leaders(pair) == []
    assert refused_credentials(pair) == []
