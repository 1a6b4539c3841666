"""Logs, commands, ports and proxies: through web sockets, through SPDY, and for clients that leave in the middle."""

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from steersman.pki import Authority
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.spdy.headers import HeaderWriter

from .conftest import Listener, RawConnection
from .kubelets import ScriptedKubelet

PODS = "/api/v1/namespaces/default/pods"
POD = f"{PODS}/web"


class Node:
    """A node of the test's own, and a Pod `web` on it."""

    def __init__(self, listener: Listener, kubelet: ScriptedKubelet) -> None:
        self.listener = listener
        self.kubelet = kubelet

    @asynccontextmanager
    async def socket(self, path: str, *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"{self.listener.cluster.url}{path}"
        async with (
            aiohttp.ClientSession() as session,
            asyncio.timeout(90),
            session.ws_connect(url, protocols=protocols, ssl=self.listener.context()) as socket,
        ):
            yield socket

    @asynccontextmanager
    async def spdy(self, path: str, protocol: str) -> AsyncIterator["SpdyPeer"]:
        async with self.listener.connection() as connection:
            await connection.request(
                "POST", path, None, "Connection: Upgrade", "Upgrade: SPDY/3.1", f"X-Stream-Protocol-Version: {protocol}"
            )
            status, headers = await connection.head()
            assert status == 101
            assert headers["upgrade"] == "SPDY/3.1"
            assert headers["x-stream-protocol-version"] == protocol
            yield SpdyPeer(connection.send, connection.reader.readexactly)


class SpdyPeer:
    """The client's half of SPDY, as client-go speaks it."""

    def __init__(self, send: Callable[[bytes], Any], read: Callable[[int], Any]) -> None:
        self._send = send
        self._read = read
        self._writer = HeaderWriter()
        self._next = 1

    async def open(self, **headers: str) -> int:
        stream, self._next = self._next, self._next + 2
        body = stream.to_bytes(4, "big") + bytes(6) + self._writer.write(headers)
        await self._send(bytes((0x80, 3, 0, 1, 0)) + len(body).to_bytes(3, "big") + body)
        return stream

    async def write(self, stream: int, data: bytes, *, last: bool = False) -> None:
        await self._send(stream.to_bytes(4, "big") + bytes((last,)) + len(data).to_bytes(3, "big") + data)

    async def collect(self, streams: set[int]) -> dict[int, bytes]:
        """The bytes of these streams until all have ended."""
        found = dict.fromkeys(streams, b"")
        open_ = set(streams)
        while open_:
            head = await self._read(8)
            body = await self._read(int.from_bytes(head[5:8], "big"))
            stream = int.from_bytes(head[:4], "big")
            if head[0] & 0x80:
                continue
            found[stream] += body
            if head[4] & 1:
                open_.discard(stream)
        return found


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - of the server's inside, which has no event for tests
            await asyncio.sleep(0.005)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers on a Pod's port with the request in capitals; ends with its client."""
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
    writer.close()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    listening = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with listening, DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        listener = Listener(cluster)
        kubelet = ScriptedKubelet(port=listening.sockets[0].getsockname()[1])
        cluster.server.kubelets.register("node", kubelet)
        await listener.ask("POST", "/api/v1/nodes", {"metadata": {"name": "node"}})
        await listener.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        containers = [{"name": "main", "image": "i", "ports": [{"containerPort": 80}]}]
        more = [{"name": "waiting", "image": "i"}]
        spec = {"nodeName": "node", "containers": containers, "initContainers": more}
        status, _ = await listener.ask("POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
        assert status == 201
        async with listener.connection() as connection:
            patch = json.dumps({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}})
            await connection.send(
                f"PATCH {POD}/status HTTP/1.1\r\nHost: c\r\nContent-Type: application/merge-patch+json\r\n"
                f"Content-Length: {len(patch)}\r\n\r\n{patch}".encode()
            )
            assert (await connection.answer())[0] == 200
        yield Node(listener, kubelet)


# Logs.


async def _chunked(connection: RawConnection) -> bytes:
    body = b""
    while size := int(await connection.reader.readline(), 16):
        body += await connection.reader.readexactly(size)
        await connection.reader.readexactly(2)
    return body


async def test_a_log_is_sent_as_it_is(node: Node):
    node.kubelet.lines = [b"one\n", b"two\n"]
    async with node.listener.connection() as connection:
        await connection.request("GET", f"{POD}/log?tailLines=7&timestamps=true")
        status, headers = await connection.head()
        assert (status, headers["content-type"]) == (200, "text/plain")
        assert await _chunked(connection) == b"one\ntwo\n"
    assert node.kubelet.asked[0].tail_lines == 7
    assert node.kubelet.asked[0].timestamps


@pytest.mark.parametrize("protocols", [(), ("binary.k8s.io",)])
async def test_a_log_is_sent_over_a_web_socket(node: Node, protocols: tuple[str, ...]):
    node.kubelet.lines = [b"one\n", b"two\n"]
    async with node.socket(f"{POD}/log", *protocols) as socket:
        assert (socket.protocol or "") == "".join(protocols)
        assert [await socket.receive_bytes() for _ in range(2)] == [b"one\n", b"two\n"]
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_web_socket_that_closes_ends_the_log_it_followed(node: Node):
    node.kubelet.lines = [b"one\n"]
    async with node.socket(f"{POD}/log?follow=true", "binary.k8s.io") as socket:
        assert await socket.receive_bytes() == b"one\n"
        await eventually(lambda: node.kubelet.following == 1)
    await eventually(lambda: node.kubelet.following == 0)


async def test_a_followed_log_begins_at_once_even_if_there_is_nothing_yet(node: Node):
    async with node.listener.connection() as connection:
        await connection.request("GET", f"{POD}/log?follow=true")
        assert (await connection.head())[0] == 200
        node.kubelet.more.set()
        assert await _chunked(connection) == b"more\n"


async def test_who_stops_following_is_not_told_any_more(node: Node):
    node.kubelet.lines = [b"one\n"]
    async with node.listener.connection() as connection:
        await connection.request("GET", f"{POD}/log?follow=true")
        await connection.head()
        await eventually(lambda: node.kubelet.following == 1)
    await eventually(lambda: node.kubelet.following == 0)


@pytest.mark.parametrize("follow", ["false", "true"])
async def test_what_the_kubelet_refuses_is_a_status_and_no_broken_stream(node: Node, follow: str):
    status, refusal = await node.listener.ask("GET", f"{POD}/log?container=waiting&follow={follow}")
    assert (status, refusal["reason"]) == (400, "BadRequest")
    assert "waiting to start" in refusal["message"]


async def test_a_node_that_nobody_answers_for_is_an_error_in_words(node: Node):
    node.listener.server.kubelets.unregister("node")
    status, refusal = await node.listener.ask("GET", f"{POD}/log")
    assert status == 500
    assert "error dialing backend" in refusal["message"]


# Commands over web sockets.


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_command_is_heard_and_its_end_told(node: Node, protocol: str):
    async with node.socket(f"{POD}/exec?command=both&stdout=1&stderr=1", protocol) as socket:
        assert socket.protocol == protocol
        messages = [await socket.receive_bytes() for _ in range(3)]
        assert messages[:2] == [b"\x01out", b"\x02err"]
        assert messages[2][0] == 3
        assert json.loads(messages[2][1:]) == {"metadata": {}, "status": "Success"}
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    await eventually(node.kubelet.sessions[0].closed.is_set)


async def test_the_first_version_of_channels_tells_of_failures_in_text(node: Node):
    async with node.socket(f"{POD}/exec?command=fail&command=7&stdout=1", "channel.k8s.io") as socket:
        assert socket.protocol == "channel.k8s.io"
        message = await socket.receive_bytes()
        assert (message[0], message.endswith(b"command terminated with exit code 7")) == (3, True)
    async with node.socket(f"{POD}/exec?command=both&stdout=1&stderr=1", "channel.k8s.io") as socket:
        assert [await socket.receive_bytes() for _ in range(2)] == [b"\x01out", b"\x02err"]
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_output_that_nobody_asked_for_is_not_sent(node: Node):
    async with node.socket(f"{POD}/exec?command=both&stderr=1", "v5.channel.k8s.io") as socket:
        assert await socket.receive_bytes() == b"\x02err"
        assert (await socket.receive_bytes())[0] == 3


async def test_an_exit_code_is_in_the_causes(node: Node):
    async with node.socket(f"{POD}/exec?command=fail&command=7&stdout=1", "v5.channel.k8s.io") as socket:
        message = await socket.receive_bytes()
        status = json.loads(message[1:])
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_input_its_end_and_the_size_of_the_terminal_arrive(node: Node):
    async with node.socket(f"{POD}/exec?command=cat&stdin=1&stdout=1&tty=1", "v5.channel.k8s.io") as socket:
        await socket.send_bytes(b'\x04{"Width":80,"Height":24}')
        await socket.send_bytes(b"\x04no size")
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x01hello"
        await socket.send_bytes(b"\xff\x00")
        assert (await socket.receive_bytes())[0] == 3
    assert node.kubelet.sessions[0].sizes == [(80, 24)]


async def test_a_command_ends_with_its_client(node: Node):
    async with node.socket(f"{POD}/exec?command=hang&stdout=1", "v5.channel.k8s.io"):
        assert not node.kubelet.sessions[0].closed.is_set()
    await eventually(node.kubelet.sessions[0].closed.is_set)


async def test_a_command_ends_with_a_connection_that_is_cut(node: Node):
    async with node.listener.connection() as connection:
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        await connection.request(
            "GET",
            f"{POD}/exec?command=hang&stdout=1",
            None,
            *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key),
        )
        assert (await connection.head())[0] == 101
    await eventually(node.kubelet.sessions[0].closed.is_set)


async def test_a_command_ends_with_its_cluster(node: Node):
    async with node.socket(f"{POD}/exec?command=hang&stdout=1", "v5.channel.k8s.io"):
        await node.listener.cluster.unlisten()
        await eventually(node.kubelet.sessions[0].closed.is_set)


async def test_a_broken_handshake_starts_nothing(node: Node):
    async with node.listener.connection() as connection:
        await connection.request(
            "GET", f"{POD}/exec?command=hang&stdout=1", None, "Connection: Upgrade", "Upgrade: websocket"
        )
        status, refusal = await connection.answer()
        assert (status, refusal["reason"]) == (400, "BadRequest")
    assert not node.kubelet.sessions


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("stdout=1", "at least one command"),
        ("command=cat", "at least 1 of stdin, stdout, stderr"),
        ("command=nope&stdout=1", "no such command"),
        ("command=cat&stdout=1&container=nope", "container nope is not valid for pod web"),
    ],
)
async def test_refusals_come_before_the_upgrade(node: Node, query: str, text: str):
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with node.socket(f"{POD}/exec?{query}", "v5.channel.k8s.io"):
            pass
    assert refused.value.status in (400, 500)
    async with node.listener.connection() as connection:
        await connection.request("POST", f"{POD}/exec?{query}", None, "Connection: Upgrade", "Upgrade: SPDY/3.1")
        _, refusal = await connection.answer()
        assert text in refusal["message"]


# Commands over SPDY.


async def test_spdy_carries_a_command_in_streams(node: Node):
    async with node.spdy(f"{POD}/exec?command=both&stdout=1&stderr=1", "v4.channel.k8s.io") as peer:
        error, out, err = [await peer.open(streamtype=kind) for kind in ("error", "stdout", "stderr")]
        found = await peer.collect({error, out, err})
        assert (found[out], found[err]) == (b"out", b"err")
        assert json.loads(found[error])["status"] == "Success"


async def test_spdy_carries_input_and_its_end(node: Node):
    async with node.spdy(f"{POD}/exec?command=cat&stdin=1&stdout=1&tty=1", "v4.channel.k8s.io") as peer:
        error, stdin, out, resize = [await peer.open(streamtype=k) for k in ("error", "stdin", "stdout", "resize")]
        await peer.write(resize, b'{"Width":80,"Height":24}\n')
        await peer.write(stdin, b"hello")
        await peer.write(stdin, b"", last=True)
        found = await peer.collect({error, out})
        assert found[out] == b"hello"
    assert node.kubelet.sessions[0].sizes == [(80, 24)]


async def test_spdy_ends_a_command_with_its_client(node: Node):
    async with node.spdy(f"{POD}/exec?command=hang&stdout=1", "v4.channel.k8s.io") as peer:
        await peer.open(streamtype="error")
    await eventually(node.kubelet.sessions[0].closed.is_set)


async def test_what_is_no_spdy_ends_the_connection(node: Node):
    async with node.listener.connection() as connection:
        await connection.request("POST", f"{POD}/attach?stdout=1", None, "Connection: Upgrade", "Upgrade: SPDY/3.1")
        assert (await connection.head())[0] == 101
        await connection.send(b"\x80\x02" + bytes(20))
        await eventually(node.kubelet.sessions[0].closed.is_set)
        assert await connection.ended()


# Ports.


async def test_channels_forward_a_port(node: Node):
    async with node.socket(f"{POD}/portforward?ports=80", "v4.channel.k8s.io") as socket:
        assert [await socket.receive_bytes() for _ in range(2)] == [b"\x00\x50\x00", b"\x01\x50\x00"]
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x00HELLO"


async def test_channels_tell_why_a_port_cannot_be_forwarded(node: Node):
    async with node.socket(f"{POD}/portforward?ports=1", "v4.channel.k8s.io") as socket:
        messages = [await socket.receive_bytes() for _ in range(3)]
        assert messages[2].startswith(b"\x01error forwarding port 1 to pod: ")


async def test_spdy_forwards_several_connections_at_once(node: Node):
    async with node.spdy(f"{POD}/portforward", "portforward.k8s.io") as peer:
        await _speak(peer)


async def test_spdy_in_a_web_socket_forwards_as_well(node: Node):
    async with node.socket(f"{POD}/portforward", "SPDY/3.1+portforward.k8s.io") as socket:
        buffer = bytearray()

        async def read(size: int) -> bytes:
            while len(buffer) < size:
                buffer.extend(await socket.receive_bytes())
            data = bytes(buffer[:size])
            del buffer[:size]
            return data

        await _speak(SpdyPeer(socket.send_bytes, read))


async def _speak(peer: SpdyPeer) -> None:
    streams: dict[str, tuple[int, int]] = {}
    for number in ("0", "1", "2"):
        port = "1" if number == "2" else "80"
        error = await peer.open(streamtype="error", port=port, requestid=number)
        data = await peer.open(streamtype="data", port=port, requestid=number)
        await peer.write(data, f"hello {number}".encode(), last=True)
        streams[number] = error, data
    found = await peer.collect({stream for pair in streams.values() for stream in pair})
    for number in ("0", "1"):
        error, data = streams[number]
        assert (found[error], found[data]) == (b"", f"HELLO {number}".encode())
    assert found[streams["2"][0]].startswith(b"error forwarding port 1 to pod: ")


# Proxies.


async def _serve(handler: Callable[[bytes], list[bytes]], kubelet: ScriptedKubelet) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            for part in handler(head):
                writer.write(part)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    kubelet.port = server.sockets[0].getsockname()[1]
    return server


async def test_a_proxy_repeats_the_request_without_the_credentials(node: Node):
    heads: list[bytes] = []

    def handler(head: bytes) -> list[bytes]:
        heads.append(head)
        return [b"HTTP/1.1 202 Accepted\r\nContent-Type: text/x\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok"]

    async with await _serve(handler, node.kubelet), node.listener.connection() as connection:
        await connection.request("GET", f"{POD}:80/proxy/a%20b/c?d=e", None, "Authorization: Bearer secret")
        status, headers = await connection.head()
        assert (status, headers["content-type"], headers["x-a"]) == (202, "text/x", "b")
    assert heads[0].startswith(b"GET /a%20b/c?d=e HTTP/1.1\r\n")
    assert b"secret" not in heads[0]


async def test_a_proxy_passes_on_a_body_while_it_comes(node: Node):
    heard = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await heard.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as pod, node.listener.connection() as connection:
        node.kubelet.port = pod.sockets[0].getsockname()[1]
        await connection.request("GET", f"{POD}/proxy/")
        assert (await connection.head())[0] == 200
        assert await connection.reader.readexactly(8) == b"3\r\none\r\n"
        heard.set()
        assert await _chunked(connection) == b"two"


@pytest.mark.parametrize("method", ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"])
async def test_a_proxy_forwards_every_method(node: Node, method: str):
    heads: list[bytes] = []

    def handler(head: bytes) -> list[bytes]:
        heads.append(head)
        return [b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n"]

    async with await _serve(handler, node.kubelet), node.listener.connection() as connection:
        await connection.request(method, f"{POD}:80/proxy/a", None, "Accept: text/html")
        status, _ = await connection.head()
    assert status == 200
    assert heads[0].startswith(f"{method} /a HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_proxy_redirects_to_the_path_with_a_slash(node: Node, method: str):
    async with node.listener.connection() as connection:
        await connection.request(method, f"{POD}:80/proxy?a=b")
        status, headers = await connection.head()
    assert (status, headers["location"]) == (301, f"{POD}:80/proxy/?a=b")


async def test_links_and_redirects_of_a_proxied_server_lead_through_the_proxy(node: Node):
    page = b'<p>a<a href="/b?c=d">b</a><a href="e">e</a><a href="http://other/f">f</a>'

    def handler(head: bytes) -> list[bytes]:
        if head.startswith(b"GET /from"):
            return [b"HTTP/1.1 302 Found\r\nLocation: /to/\r\nContent-Length: 0\r\n\r\n"]
        return [b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page]

    async with await _serve(handler, node.kubelet), node.listener.connection() as connection:
        await connection.request("GET", f"{POD}:80/proxy/from")
        status, headers = await connection.head()
        assert (status, headers["location"]) == (302, f"{POD}:80/proxy/to/")
        _, text = await node.listener.ask("GET", f"{POD}:80/proxy/")
        assert text == page.decode().replace('"/b', f'"{POD}:80/proxy/b')


@pytest.mark.parametrize("answer", [[], [b"nonsense\r\n\r\n"], [b"HTTP/1.1 2"]], ids=["nothing", "nonsense", "half"])
async def test_a_proxy_tells_of_a_pod_that_speaks_no_http(node: Node, answer: list[bytes]):
    async with await _serve(lambda _: answer, node.kubelet):
        status, refusal = await node.listener.ask("GET", f"{POD}/proxy/")
        assert (status, refusal["reason"]) == (503, "ServiceUnavailable")
        assert refusal["message"].startswith("error trying to reach service: ")


async def test_a_proxy_of_a_service_takes_a_pod_of_its_endpoints(node: Node):
    services = "/api/v1/namespaces/default/services"
    await node.listener.ask(
        "POST", services, {"metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 8080}]}}
    )
    target = {"kind": "Pod", "name": "web", "namespace": "default"}
    subset = {"addresses": [{"ip": "10.1.2.3", "targetRef": target}], "ports": [{"name": "http", "port": 80}]}
    endpoints = {"metadata": {"name": "web"}, "subsets": [subset]}
    assert (await node.listener.ask("POST", "/api/v1/namespaces/default/endpoints", endpoints))[0] == 201

    def handler(_head: bytes) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"]

    async with await _serve(handler, node.kubelet):
        for name in ("web:http", "web:8080", "http:web:8080"):
            assert await node.listener.ask("GET", f"{services}/{name}/proxy/") == (200, "ok")


async def test_a_proxy_speaks_tls_to_a_pod_that_wants_it(node: Node):
    pair = Authority.create("somebody").serving("pod", ["pod"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as pem:
        pem.write(pair.cert_pem + pair.key_pem)
        pem.flush()
        context.load_cert_chain(pem.name)
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsecure")
        writer.close()

    path = POD.replace("/web", "/https:web:80")
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as pod:
        node.kubelet.port = pod.sockets[0].getsockname()[1]
        assert await node.listener.ask("GET", f"{path}/proxy/") == (200, "secure")
    assert b"\r\nHost: web:80\r\n" in heads[0]

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as pod:
        node.kubelet.port = pod.sockets[0].getsockname()[1]
        status, refusal = await node.listener.ask("GET", f"{path}/proxy/")
        assert (status, refusal["reason"]) == (503, "ServiceUnavailable")


async def test_a_proxy_lets_a_connection_be_upgraded(node: Node):
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as pod:
        node.kubelet.port = pod.sockets[0].getsockname()[1]
        async with node.listener.connection() as connection:
            await connection.request("GET", f"{POD}/proxy/talk", None, "Connection: upgrade", "Upgrade: echo")
            status, headers = await connection.head()
            assert (status, headers["upgrade"]) == (101, "echo")
            assert await connection.reader.readexactly(6) == b"hello "
            await connection.send(b"world")
            assert await connection.reader.readexactly(5) == b"WORLD"
    assert b"\r\nUpgrade: echo\r\n" in heads[0]


async def test_a_proxy_carries_web_sockets_without_the_token_in_their_protocols(node: Node):
    told: list[str] = []

    async def talk(request: web.Request) -> web.WebSocketResponse:
        told.append(request.headers["Sec-WebSocket-Protocol"])
        socket = web.WebSocketResponse(protocols=["chat"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data[::-1])
        return socket

    app = web.Application()
    app.router.add_get("/chat", talk)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    node.kubelet.port = runner.addresses[0][1]
    protocols = ("base64url.bearer.authorization.k8s.io.c2VjcmV0", "chat")
    async with node.socket(f"{POD}/proxy/chat", *protocols) as socket:
        assert socket.protocol == "chat"
        await socket.send_str("stressed")
        assert (await socket.receive()).data == "desserts"
    assert told == ["chat"]
    await runner.cleanup()


# Our own client, in-process.


async def test_our_client_needs_no_socket_for_commands_and_ports(node: Node):
    async with node.listener.cluster.client() as client:
        result = await client.exec("web", ["both"], namespace="default")
        assert (result.stdout, result.stderr, result.exit_code) == (b"out", b"err", 0)
        async with client.port_forward("web", 80, namespace="default") as forwarding:
            reader, writer = await asyncio.open_connection(forwarding.host, forwarding.port)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"HELLO"
            writer.close()
            await writer.wait_closed()
