"""Faults of Pods and nodes: what other Pods and the API see of them, on real processes."""

import contextlib
import json
import socket
import urllib.request
from typing import Any

import pytest

from steersman.testing import CallError
from steersman.testing.node_faults import NodeFaults, forwarded

from .web import Pods, address_of, is_ready, pod, service, stateful_set, until


def reaches(pods: Pods, source: str, destination: str) -> bool:
    """Whether a Pod gets an answer from another one within two seconds."""
    address = address_of(pods.cluster.call("GET", pods.path("pods", destination)))
    return pods.ask(source, f"fetch/http:||{address}|").get("found", {}).get("host") == destination


def recreated(pods: Pods, name: str, before: str) -> None:
    """Wait until a Pod is ready at an address that is not `before`."""
    until(
        lambda: pods.cluster.get("pod", name, namespace=pods.namespace),
        lambda found: found is not None and is_ready(found) and address_of(found) != before,
    )


@pytest.fixture
def trio(pods: Pods) -> Pods:
    """Three ready Pods of a StatefulSet."""
    pods.cluster.apply(service("web", "web", clusterIP="None"), stateful_set("web"))
    pods.ready("web-0", "web-1", "web-2")
    return pods


@pytest.mark.slow
def test_a_partition_separates_two_sides_until_it_ends(trio: Pods, node_faults: NodeFaults) -> None:
    with node_faults.partition("web-0", ["web-1", "web-2"]):
        assert not reaches(trio, "web-0", "web-1")
        assert not reaches(trio, "web-2", "web-0")
        assert reaches(trio, "web-1", "web-2")
    assert reaches(trio, "web-0", "web-1")


@pytest.mark.slow
def test_a_partition_from_the_api_server_leaves_other_pods_alone(trio: Pods, node_faults: NodeFaults) -> None:
    fault = node_faults.partition("web-0", "apiserver", one_way=True)
    assert node_faults.list() == [
        {
            "id": node_faults.list()[0]["id"],
            "verb": "partition",
            "sources": [f"{trio.namespace}/web-0"],
            "destinations": ["apiserver"],
            "oneWay": True,
        }
    ]
    assert "error" in trio.ask("web-0", "fetch/https:||kubernetes.default.svc|version")
    assert "found" in trio.ask("web-1", "fetch/https:||kubernetes.default.svc|version")
    assert reaches(trio, "web-0", "web-1")
    fault.end()
    assert "found" in trio.ask("web-0", "fetch/https:||kubernetes.default.svc|version")


@pytest.mark.slow
def test_a_partition_follows_a_pod_to_its_next_address(trio: Pods, node_faults: NodeFaults) -> None:
    before = address_of(trio.cluster.call("GET", trio.path("pods", "web-1")))
    node_faults.partition("web-0", "web-1")
    trio.cluster.call("DELETE", trio.path("pods", "web-1"))
    recreated(trio, "web-1", before)
    assert not reaches(trio, "web-0", "web-1")
    assert reaches(trio, "web-2", "web-1")


@pytest.mark.slow
def test_packets_that_are_late_or_lost_are_missed(trio: Pods, node_faults: NodeFaults) -> None:
    with node_faults.delay("web-0", "web-1", seconds=60):
        assert not reaches(trio, "web-0", "web-1")
        assert reaches(trio, "web-0", "web-2")
    with node_faults.delay("web-0", "web-1", seconds=0.05, jitter_seconds=0.01):
        assert reaches(trio, "web-0", "web-1")
    with node_faults.drop("web-0", share=1.0):
        assert not reaches(trio, "web-0", "web-2")
    assert reaches(trio, "web-0", "web-2")


@pytest.mark.slow
def test_a_paused_pod_does_not_answer_and_goes_on_as_the_same_process(trio: Pods, node_faults: NodeFaults) -> None:
    assert reaches(trio, "web-0", "web-1")
    with node_faults.pause("web-1"):
        assert not reaches(trio, "web-0", "web-1")
        trio.cluster.wait("pod", "web-1", "Ready=False", namespace=trio.namespace)
    assert reaches(trio, "web-0", "web-1")
    trio.ready("web-1")
    assert restarts(trio, "web-1") == 0


def restarts(pods: Pods, name: str) -> int:
    return pods.cluster.call("GET", pods.path("pods", name))["status"]["containerStatuses"][0]["restartCount"]


@pytest.mark.slow
def test_a_killed_pod_is_restarted_by_its_node(trio: Pods, node_faults: NodeFaults) -> None:
    node_faults.kill("web-1")
    until(lambda: restarts(trio, "web-1"), lambda number: number == 1)
    last = trio.cluster.call("GET", trio.path("pods", "web-1"))["status"]["containerStatuses"][0]["lastState"]
    assert last["terminated"]["exitCode"] == 137
    trio.ready("web-1")


@pytest.mark.slow
def test_a_lost_node_is_silent_until_it_returns(trio: Pods, node_faults: NodeFaults) -> None:
    nodes: dict[str, Any] = {n: trio.cluster.call("GET", trio.path("pods", n))["spec"]["nodeName"] for n in NAMES}
    lost = nodes["web-1"]
    survivor = next(name for name in NAMES if nodes[name] != lost)
    with node_faults.node_loss(lost):
        trio.cluster.wait("node", lost, "Ready=Unknown")
        trio.cluster.wait("pod", "web-1", "Ready=False", namespace=trio.namespace)
        assert not reaches(trio, survivor, "web-1")
    trio.cluster.wait("node", lost, "Ready")
    until(lambda: restarts(trio, "web-1"), lambda number: number == 1)
    trio.ready("web-1")
    assert reaches(trio, survivor, "web-1")


NAMES = ("web-0", "web-1", "web-2")


@pytest.mark.slow
def test_a_forwarded_port_leads_to_a_pod_also_after_its_re_creation(trio: Pods) -> None:
    with forwarded(trio.cluster, "web-0", 80) as (host, port):

        def ask() -> str:
            with urllib.request.urlopen(f"http://{host}:{port}/", timeout=5) as answer:
                return json.load(answer)["host"]

        assert ask() == "web-0"
        before = address_of(trio.cluster.call("GET", trio.path("pods", "web-0")))
        trio.cluster.call("DELETE", trio.path("pods", "web-0"))
        recreated(trio, "web-0", before)
        assert ask() == "web-0"


@pytest.mark.slow
def test_the_end_of_a_forwarding_ends_its_connections(trio: Pods) -> None:
    with forwarded(trio.cluster, "web-0", 80) as address:
        connection = socket.create_connection(address, timeout=10)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert connection.getpeername() == address
    with connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.mark.slow
def test_a_fault_of_what_does_not_exist_is_refused(pods: Pods, node_faults: NodeFaults) -> None:
    with pytest.raises(CallError, match="nothing: there is no such Pod"):
        node_faults.partition("nothing", "apiserver")
    with pytest.raises(CallError, match="node/nowhere: there is no such process node"):
        node_faults.node_loss("nowhere")
    with pytest.raises(CallError, match="share: it has to be a number from 0 to 1"):
        node_faults.drop("*", share=2.0)
    assert node_faults.list() == []


@pytest.mark.slow
def test_faults_need_an_administrator(pods: Pods) -> None:
    pods.cluster.apply(pod("client"))
    pods.ready("client")
    answer = pods.ask("client", "fetch/https:||kubernetes.default.svc|steersman.dev|faults")
    assert "403" in answer["error"]
