"""Pods with networks of their own: real processes, names, Services and ways in, on the embedded cluster."""

import asyncio
import errno
import json
import os
import socket
import urllib.request

import pytest

from steersman_cluster.nodes.network.cluster_network import NetworkError
from steersman_cluster.nodes.network.detection import start_network

from .web import Pods, address_of, container, is_ready, pod, service, stateful_set, until


@pytest.mark.slow
def test_members_of_a_stateful_set_find_each_other_by_name_and_survive_new_addresses(pods: Pods) -> None:
    cluster = pods.cluster
    cluster.apply(service("web", "web", clusterIP="None"), service("front", "web"), stateful_set("web"))
    before = pods.ready("web-0", "web-1", "web-2")
    assert len(set(before.values())) == 3
    for name, address in before.items():
        assert pods.found("web-0", f"lookup/{name}.web") == [address]
        assert pods.found("web-0", f"fetch/http:||{name}.web|")["host"] == name
    assert pods.found("web-0", "lookup/web") == sorted(before.values())
    assert pods.found("web-0", f"name/{before['web-1']}") == f"web-1.web.{pods.namespace}.svc.cluster.local"
    reached = {pods.found("web-1", "fetch/http:||front|")["host"] for _ in range(40)}
    assert reached == {"web-0", "web-1", "web-2"}

    cluster.call("DELETE", pods.path("pods", "web-1"))
    until(
        lambda: cluster.get("pod", "web-1", namespace=pods.namespace),
        lambda p: is_ready(p) and address_of(p) != before["web-1"],
    )
    after = pods.ready("web-1")["web-1"]
    until(lambda: pods.ask("web-0", "lookup/web-1.web").get("found"), lambda found: found == [after])
    assert pods.found("web-0", "fetch/http:||web-1.web|") == {"host": "web-1", "client": before["web-0"]}


@pytest.mark.slow
def test_a_pod_reaches_the_api_server_under_its_name(pods: Pods) -> None:
    pods.cluster.apply(pod("client"))
    pods.ready("client")
    answer = pods.found("client", "fetch/https:||kubernetes.default.svc|version")
    assert answer["gitVersion"].startswith("v1.")
    assert pods.found("client", "fetch/https:||10.0.0.1|version") == answer


@pytest.mark.slow
def test_a_pod_reaches_the_address_of_the_keys_that_verify_tokens(pods: Pods) -> None:
    pods.cluster.apply(pod("client"))
    pods.ready("client")
    document = pods.cluster.call("GET", "/.well-known/openid-configuration")
    server = document["jwks_uri"].removesuffix("/openid/v1/jwks")
    assert server == document["issuer"]
    assert pods.found("client", f"fetch/{server.replace('/', '|')}|version")["gitVersion"].startswith("v1.")


@pytest.mark.slow
def test_each_pod_has_a_loopback_of_its_own(pods: Pods) -> None:
    local = {"name": "local", "image": "web", "env": [{"name": "PORT", "value": "8081"}]}
    pods.cluster.apply(pod("one", containers=[container(), local]), pod("two"))
    pods.ready("one", "two")
    assert pods.found("one", "fetch/http:||127.0.0.1:8081|")["client"] == "127.0.0.1"
    assert "refused" in pods.ask("two", "fetch/http:||127.0.0.1:8081|")["error"]


@pytest.mark.slow
def test_node_ports_and_host_ports_answer_at_the_nodes_address(pods: Pods) -> None:
    ports = [{"containerPort": 80, "hostPort": 8123}]
    pods.cluster.apply(pod("server", containers=[container(ports=ports)]), pod("client"))
    pods.cluster.apply(service("server", "server", type="NodePort"))
    pods.ready("server", "client")
    server = pods.cluster.get("pod", "server", namespace=pods.namespace)
    node_port = pods.cluster.get("service", "server", namespace=pods.namespace)["spec"]["ports"][0]["nodePort"]
    for port in (8123, node_port):
        url = f"fetch/http:||{server['status']['hostIP']}:{port}|"
        until(lambda url=url: pods.ask("client", url).get("found", {}).get("host"), lambda host: host == "server")


def loopback_fetch(port: int) -> str:
    """Return the name of the server that answers at a port of this machine's loopback address."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return json.load(answer)["host"]
    except OSError as problem:
        return "refused" if "refused" in str(problem) else str(problem)


def loopback_datagram(port: int) -> str:
    """Return what a datagram to a port of this machine's loopback address is answered with."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect(("127.0.0.1", port))
        try:
            client.send(b"name")
            return client.recv(100).decode()
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "no answer"


@pytest.mark.slow
def test_node_ports_answer_at_the_loopback_address_of_this_machine_until_their_service_goes(pods: Pods) -> None:
    pods.cluster.apply(pod("server", containers=[container(env=[{"name": "UDP_PORT", "value": "80"}])]))
    ports = [{"name": "web", "port": 80}, {"name": "datagrams", "port": 80, "protocol": "UDP"}]
    pods.cluster.apply(service("server", "server", type="NodePort", ports=ports))
    pods.ready("server")
    web, datagrams = (
        port["nodePort"] for port in pods.cluster.get("service", "server", namespace=pods.namespace)["spec"]["ports"]
    )
    until(lambda: loopback_fetch(web), lambda host: host == "server")
    until(lambda: loopback_datagram(datagrams), lambda host: host == "server")
    pods.cluster.call("DELETE", pods.path("services", "server"))
    until(lambda: loopback_fetch(web), lambda host: host == "refused")
    assert loopback_datagram(datagrams) == "refused"


@pytest.mark.slow
def test_host_ports_with_different_addresses_and_protocols_answer_on_their_own_node(pods: Pods) -> None:
    node = pods.cluster.get("node", "node-1")
    address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    udp = {"env": [{"name": "UDP_PORT", "value": "80"}]}
    servers = {
        "loopback": container(ports=[{"containerPort": 80, "hostPort": 8125, "hostIP": "127.0.0.1"}]),
        "outward": container(ports=[{"containerPort": 80, "hostPort": 8125, "hostIP": address}]),
        "datagrams": container(
            ports=[{"containerPort": 80, "hostPort": 8125, "hostIP": address, "protocol": "UDP"}], **udp
        ),
    }
    for name, server in servers.items():
        pods.cluster.apply(pod(name, nodeName="node-1", containers=[server]))
    probe = {"tcpSocket": {"port": 8126}, "periodSeconds": 1}
    client = container(env=[{"name": "PORT", "value": "8126"}], readinessProbe=probe)
    pods.cluster.apply(pod("client", nodeName="node-1", hostNetwork=True, containers=[client]))
    pods.ready(*servers, "client")
    assert pods.ask("client", "fetch/http:||127.0.0.1:8125|", 8126)["found"]["host"] == "loopback"
    assert pods.ask("client", f"fetch/http:||{address}:8125|", 8126)["found"]["host"] == "outward"
    assert pods.ask("client", f"datagram/{address}:8125", 8126)["found"] == "datagrams"


@pytest.mark.slow
def test_a_pod_on_the_host_network_has_the_nodes_address(pods: Pods) -> None:
    probe = {"tcpSocket": {"port": 8124}, "periodSeconds": 1}
    server = container(env=[{"name": "PORT", "value": "8124"}], readinessProbe=probe)
    pods.cluster.apply(pod("host", hostNetwork=True, containers=[server]), pod("client"))
    address = pods.ready("host", "client")["host"]
    assert address == pods.cluster.get("pod", "host", namespace=pods.namespace)["status"]["hostIP"]
    assert pods.found("client", f"fetch/http:||{address}:8124|")["host"] == "host"


@pytest.mark.slow
def test_endpoints_that_are_not_ready_have_names_only_when_they_are_published(pods: Pods) -> None:
    failing = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    body = pod("slow", hostname="slow", subdomain="hidden", containers=[container(readinessProbe=failing)])
    pods.cluster.apply(body, pod("client"))
    pods.cluster.apply(service("hidden", "slow", clusterIP="None"))
    pods.cluster.apply(service("shown", "slow", clusterIP="None", publishNotReadyAddresses=True))
    pods.ready("client")
    until(lambda: pods.ask("client", "lookup/shown").get("found"), bool)
    assert "error" in pods.ask("client", "lookup/hidden")


def test_a_machine_without_namespaces_gets_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steersman_cluster.nodes.network.detection.detect", lambda: "plain")
    with pytest.raises(NetworkError, match="use network=loopback"):
        asyncio.run(start_network())


def test_a_user_without_user_namespaces_gets_a_message_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused() -> None:
        raise NetworkError(errno.ENOSPC, "unshare: No space left on device")

    monkeypatch.setattr("steersman_cluster.nodes.network.detection.detect", lambda: "bubblewrap")
    monkeypatch.setattr("steersman_cluster.nodes.network.detection.ClusterNetwork.start", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        NetworkError, match=r"user\.max_user_namespaces.* run the cluster as root, or use network=loopback"
    ):
        asyncio.run(start_network())


@pytest.mark.slow
def test_the_kubelet_of_each_node_answers_pods_over_tls_at_its_address(pods: Pods) -> None:
    pods.cluster.apply(pod("client"))
    pods.ready("client")
    for node in ("node-1", "node-2"):
        status = pods.cluster.get("node", node)["status"]
        address = next(a["address"] for a in status["addresses"] if a["type"] == "InternalIP")
        port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        assert port == 10250
        assert "401" in pods.ask("client", f"fetch/https:||{address}:{port}|healthz")["error"]
