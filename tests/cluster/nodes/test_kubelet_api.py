"""The HTTPS API of a process node's kubelet: authentication, authorization, and its responses."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from steersman.client import Client
from steersman.pki import as_file
from steersman_cluster.api.connect.kubelet_server import subresources_of
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.kubelet import STDOUT
from tests.cluster.nodes.test_containers import HOST, until

CHANNELS = "v5.channel.k8s.io"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SERVER = "import sys; print('ready', flush=True); print('heard', input(), flush=True); import time; time.sleep(1000)"


class Node:
    """The cluster, and requests to the kubelet of its node."""

    def __init__(self, cluster: DevCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    @property
    def port(self) -> int:
        assert self.cluster.nodes is not None
        return self.cluster.nodes.agent.registrations["node-1"].info.kubelet_port

    def context(self, user: str = "", *groups: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.cluster.authority.cert_pem.decode())
        if user:
            pair = self.cluster.authority.client(user, groups)
            with as_file(pair.key_pem + pair.cert_pem) as path:
                context.load_cert_chain(path)
        return context

    async def ask(self, path: str, context: ssl.SSLContext, **options: Any) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                options.pop("method", "GET"), f"https://127.0.0.1:{self.port}{path}", ssl=context, **options
            ) as answer,
        ):
            return answer.status, await answer.text()

    async def read(self, path: str) -> tuple[int, str]:
        """Ask as an administrator."""
        return await self.ask(path, self.context("admin", "system:masters"))

    @asynccontextmanager
    async def socket(self, path: str, *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"https://127.0.0.1:{self.port}{path}"
        context = self.context("admin", "system:masters")
        async with (
            aiohttp.ClientSession() as session,
            asyncio.timeout(60),
            session.ws_connect(url, protocols=protocols, ssl=context) as socket,
        ):
            yield socket

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return json.loads((await self.client.raw.request(method, path, body=data)).body)

    async def pod(self, name: str, *command: str, **fields: Any) -> str:
        container = {"name": "c", "image": HOST, "command": list(command), **fields}
        spec = {"nodeName": "node-1", "terminationGracePeriodSeconds": 0, "containers": [container]}
        path = "/api/v1/namespaces/default/pods"
        made = await self.send("POST", path, {"metadata": {"name": name}, "spec": spec})

        async def phase() -> Any:
            return (await self.send("GET", f"{path}/{name}"))["status"].get("phase")

        await until(phase, lambda found: found == "Running")
        return made["metadata"]["uid"]

    async def grant(self, user: str, *resources: str) -> None:
        rules = [{"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}]
        await self.send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
        await self.send("POST", f"{RBAC}/clusterrolebindings", binding)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    images = tmp_path / "images.yaml"
    images.write_text("images: {}\n")
    options = Options(controllers=False, node_kind="process", network="loopback", images=images, data=tmp_path / "data")
    async with DevCluster.start(options) as cluster, cluster.client() as client:
        made = Node(cluster, client)
        await made.send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        yield made


@pytest.mark.parametrize(
    ("path", "subresources"),
    [
        ("/stats/summary", ("stats",)),
        ("/metrics/resource", ("metrics",)),
        ("/logs/kubelet.log", ("log",)),
        ("/pods", ("pods", "proxy")),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz/ping", ("healthz", "proxy")),
        ("/exec/default/p/c", ("proxy",)),
        ("/statsx", ("proxy",)),
    ],
)
def test_each_path_asks_for_its_sub_resource_of_nodes(path: str, subresources: tuple[str, ...]) -> None:
    assert subresources_of(path) == subresources


async def test_a_node_names_the_port_at_which_its_kubelet_answers(node: Node) -> None:
    stored = await node.send("GET", "/api/v1/nodes/node-1")
    assert stored["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == node.port
    assert await node.read("/healthz") == (200, "ok")
    through = await node.client.raw.request("GET", f"/api/v1/nodes/https:node-1:{node.port}/proxy/healthz")
    assert through.body == b"ok"


async def test_a_request_without_or_with_a_wrong_credential_is_refused(node: Node) -> None:
    assert (await node.ask("/healthz", node.context()))[0] == 401
    headers = {"Authorization": "Bearer nonsense"}
    assert (await node.ask("/pods", node.context(), headers=headers))[0] == 401


async def test_a_user_needs_the_sub_resource_of_the_path(node: Node) -> None:
    await node.grant("metrics-reader", "nodes/metrics", "nodes/stats")
    reader = node.context("metrics-reader")
    assert (await node.ask("/metrics/resource", reader))[0] == 200
    assert (await node.ask("/stats/summary", reader))[0] == 200
    refused = "Forbidden (user=metrics-reader, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
    assert await node.ask("/pods", reader) == (403, refused)
    assert (await node.ask("/stats/summary", reader, method="POST"))[0] == 403


async def test_nodes_proxy_opens_every_path_of_the_kubelet_but_statistics(node: Node) -> None:
    await node.grant("debugger", "nodes/proxy")
    debugger = node.context("debugger")
    assert (await node.ask("/pods", debugger))[0] == 200
    assert (await node.ask("/healthz", debugger))[0] == 200
    assert (await node.ask("/stats/summary", debugger))[0] == 403


async def test_the_token_of_a_service_account_identifies_it(node: Node) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = (await node.send("POST", path, {"spec": {"expirationSeconds": 600}}))["status"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    status, text = await node.ask("/pods", node.context(), headers=headers)
    assert (status, "user=system:serviceaccount:default:default" in text) == (403, True)
    await node.grant("system:serviceaccount:default:default", "nodes/pods")
    assert (await node.ask("/pods", node.context(), headers=headers))[0] == 200


async def test_pods_and_their_logs_are_served(node: Node) -> None:
    await node.pod("p", sys.executable, "-I", "-S", "-c", SERVER, stdin=True)
    pods = json.loads((await node.read("/pods"))[1])
    assert [pod["metadata"]["name"] for pod in pods["items"]] == ["p"]
    assert (await until(lambda: node.read("/containerLogs/default/p/c"), lambda found: found[1])) == (200, "ready\n")
    assert await node.read("/containerLogs/default/q/c") == (404, 'pod "q" does not exist\n')
    assert (await node.read("/containerLogs/default/p/x"))[0] == 400
    assert (await node.read("/nonsense"))[0] == 404


async def test_commands_run_through_the_kubelets_own_parameters(node: Node) -> None:
    uid = await node.pod("p", "/bin/sleep", "1000")
    command = "output=1&error=1&command=/bin/echo&command=hello"
    for path in ("/exec/default/p/c", f"/exec/default/p/{uid}/c"):
        async with node.socket(f"{path}?{command}", CHANNELS) as socket:
            frames = [message.data async for message in socket]
        assert b"".join(frame[1:] for frame in frames if frame[0] == STDOUT) == b"hello\n"
    assert await node.read(f"/exec/default/p/other/c?{command}") == (404, 'pod "p" does not exist\n')
    assert (await node.read("/exec/default/p/c?output=1&command=true")) == (400, "Upgrade request required\n")


async def test_the_node_proxy_of_the_api_server_carries_commands_too(node: Node) -> None:
    await node.pod("p", "/bin/sleep", "1000")
    path = "/api/v1/nodes/node-1/proxy/exec/default/p/c?output=1&command=/bin/echo&command=hello"
    context = node.context("admin", "system:masters")
    async with (
        aiohttp.ClientSession() as session,
        asyncio.timeout(60),
        session.ws_connect(f"{node.cluster.url}{path}", protocols=[CHANNELS], ssl=context) as socket,
    ):
        frames = [message.data async for message in socket]
    assert b"".join(frame[1:] for frame in frames if frame[0] == STDOUT) == b"hello\n"


async def test_attach_joins_the_containers_own_process(node: Node) -> None:
    await node.pod("p", sys.executable, "-I", "-S", "-c", SERVER, stdin=True)
    await until(lambda: node.read("/containerLogs/default/p/c"), lambda found: found[1])
    async with node.socket("/attach/default/p/c?input=1&output=1", CHANNELS) as socket:
        await socket.send_bytes(b"\0words\n")
        output = b""
        while b"\n" not in output:
            frame = (await socket.receive()).data
            output += frame[1:] if frame[0] == STDOUT else b""
    assert output == b"heard words\n"


async def test_ports_are_forwarded(node: Node) -> None:
    answer = "HTTP/1.0 200 OK\\r\\n\\r\\nhere"
    code = (
        "import os, socket; s = socket.create_server((os.environ['POD_IP'], 8080)); print('up', flush=True)\n"
        f"while True: c = s.accept()[0]; c.recv(100); c.sendall({answer!r}.encode().decode('unicode_escape').encode());"
        " c.close()"
    )
    await node.pod("p", sys.executable, "-I", "-S", "-c", code)
    await until(lambda: node.read("/containerLogs/default/p/c"), lambda found: found[1])
    async with node.socket("/portForward/default/p?port=8080", "v4.channel.k8s.io") as socket:
        await socket.send_bytes(b"\0GET / HTTP/1.0\r\n\r\n")
        received = b""
        while b"here" not in received:
            frame = (await socket.receive()).data
            received += frame[1:] if frame[0] == 0 else b""
    assert b"200 OK" in received


async def test_the_kubelet_stops_with_its_cluster(tmp_path: Path) -> None:
    images = tmp_path / "images.yaml"
    images.write_text("images: {}\n")
    options = Options(controllers=False, node_kind="process", network="loopback", images=images, data=tmp_path / "data")
    async with DevCluster.start(options) as cluster, cluster.client() as client:
        port = Node(cluster, client).port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
