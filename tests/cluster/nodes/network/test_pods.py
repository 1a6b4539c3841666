"""Pods with networks of their own: real processes, names, Services and ways in, on the embedded cluster."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.embedded import EmbeddedCluster
from steersman.testing.waiting import eventually
from steersman_cluster.nodes.network.cluster_network import NetworkError
from steersman_cluster.nodes.network.detection import start_network

PROGRAM = """
import http.server, json, os, socket, ssl, urllib.parse, urllib.request

def fetch(url):
    context = None
    if url.startswith("https"):
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        context = ssl.create_default_context(cafile=f"{account}/ca.crt")
    with urllib.request.urlopen(url, timeout=5, context=context) as answer:
        return json.load(answer)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        verb, _, rest = urllib.parse.unquote(self.path[1:]).partition("/")
        said = {"host": socket.gethostname(), "client": self.client_address[0]}
        try:
            if verb == "lookup":
                said["found"] = sorted({a[4][0] for a in socket.getaddrinfo(rest, 80, socket.AF_INET)})
            elif verb == "name":
                said["found"] = socket.gethostbyaddr(rest)[0]
            elif verb == "fetch":
                said["found"] = fetch(rest.replace("|", "/"))
            elif verb == "read":
                said["found"] = open("/" + rest).read()
        except OSError as problem:
            said["error"] = repr(problem)
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "80"))), Handler).serve_forever()
"""


@cache
def unavailable() -> str:
    """Why this machine has no network namespaces for Pods; empty where it has."""

    async def attempt() -> None:
        await (await start_network()).close()

    try:
        asyncio.run(attempt())
    except NetworkError as problem:
        return problem.strerror or str(problem)
    return ""


@pytest.fixture(autouse=True)
def _needs_namespaces() -> None:
    if reason := unavailable():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("images")
    (directory / "web.py").write_text(PROGRAM)
    path = directory / "images.yaml"
    path.write_text(f"images:\n  web: {{command: [{sys.executable}, {directory / 'web.py'}]}}\n")
    return path


@pytest.fixture(scope="module")
def cluster(images: Path) -> Iterator[EmbeddedCluster]:
    if reason := unavailable():
        pytest.skip(reason)
    with EmbeddedCluster.start(nodes=2, node_kind="process", images=images, network="namespaces") as made:
        yield made


def container(**fields: Any) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
    return {"name": "web", "image": "web", "readinessProbe": probe, **fields}


def service(name: str, app: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": ports, **spec},
    }


def stateful_set(name: str, replicas: int = 3) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"containers": [container()], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    body = {"containers": [container()], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": body}


def is_ready(obj: dict[str, Any]) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


class Pods:
    """Requests to Pods of one test's namespace through the API server's proxy."""

    def __init__(self, cluster: EmbeddedCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def path(self, plural: str, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"

    def ask(self, name: str, path: str = "", port: int = 80) -> dict[str, Any]:
        return self.cluster.call("GET", f"{self.path('pods', f'{name}:{port}')}/proxy/{path}")

    def found(self, name: str, path: str) -> Any:
        answer = self.ask(name, path)
        assert "found" in answer, answer
        return answer["found"]

    def ready(self, *names: str) -> dict[str, str]:
        """Wait until Pods are ready; return their addresses."""
        for name in names:
            self.cluster.wait("pod", name, is_ready, namespace=self.namespace)
        return {n: self.cluster.call("GET", self.path("pods", n))["status"]["podIP"] for n in names}


@pytest.fixture
def pods(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[Pods]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:50].strip("-")
    cluster.create_namespace(name)
    with cluster.test(name):
        yield Pods(cluster, name)
    cluster.delete_namespace(name)


def until(read: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Wait until a value is as expected; return it."""
    return eventually(read, within=30.0, until=holds)


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


def address_of(obj: dict[str, Any]) -> str:
    return obj["status"].get("podIP") or ""


@pytest.mark.slow
def test_a_pod_reaches_the_api_server_under_its_name(pods: Pods) -> None:
    pods.cluster.apply(pod("client"))
    pods.ready("client")
    answer = pods.found("client", "fetch/https:||kubernetes.default.svc|version")
    assert answer["gitVersion"].startswith("v1.")
    assert pods.found("client", "fetch/https:||10.0.0.1|version") == answer


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


@pytest.mark.slow
def test_nothing_remains_after_the_cluster_is_killed(images: Path) -> None:
    text = f"""
import json, sys
from pathlib import Path
from steersman.testing.embedded import EmbeddedCluster
cluster = EmbeddedCluster.start(node_kind="process", images=Path({str(images)!r}), network="namespaces")
body = json.loads({json.dumps(json.dumps(pod("web")))})
cluster.call("POST", "/api/v1/namespaces/default/pods", body)
with cluster.test("default"):
    cluster.wait("pod", "web", "Ready")
print("ready", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        lines = iter(child.stdout.readline, "")
        assert any(line == "ready\n" for line in lines)
        below = descendants(child.pid)
        inside = {network_of(pid) for pid in below} - {network_of(os.getpid())}
        assert len(inside) >= 2, "the router and the Pod have networks of their own"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()  # type: ignore[union-attr]
        child.stdout.close()  # type: ignore[union-attr]
    until(
        lambda: [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if network_of(pid) in inside],
        lambda left: not left,
    )


def network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def test_a_machine_without_namespaces_gets_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steersman_cluster.nodes.network.detection.detect", lambda: "plain")
    with pytest.raises(NetworkError, match="use network=loopback"):
        asyncio.run(start_network())
