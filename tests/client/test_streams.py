"""exec, attach, port-forward and logs, against a web socket server of our own that frames as a kubelet does."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import WSMsgType, web

from steersman.client import BadRequest, Client, Config, ConnectionLostError, Forbidden, ResponseError
from steersman.client.transport import AiohttpTransport, PyreqwestTransport

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POD = "/api/v1/namespaces/default/pods/pod"


@pytest.fixture(params=[PyreqwestTransport, AiohttpTransport])
async def serve(request) -> AsyncIterator[Callable[[Handler], Awaitable[Client]]]:
    runners: list[web.AppRunner] = []
    clients: list[Client] = []

    async def start(handler: Handler) -> Client:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        config = Config.for_url(f"http://127.0.0.1:{port}")
        clients.append(Client(config, transport=request.param(config)))
        return clients[-1]

    yield start
    for client in clients:
        await client.close()
    for runner in runners:
        await runner.cleanup()


def success(code: int | None = None) -> bytes:
    if not code:
        return b"\x03" + json.dumps({"kind": "Status", "status": "Success"}).encode()
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return (
        b"\x03"
        + json.dumps(
            {"kind": "Status", "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
        ).encode()
    )


async def test_exec_returns_output_and_exit_code(serve):
    seen: dict[str, object] = {}

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.update(path=request.path, query=list(request.query.items()))
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01")  # kubelets open each channel with an empty message
        await socket.send_bytes(b"\x01one\n")
        await socket.send_bytes(b"\x02oops")
        await socket.send_bytes(b"\x01two")
        await socket.send_bytes(success(3))
        await socket.close()
        return socket

    client = await serve(handler)
    result = await client.exec("pod", ["sh", "-c", "exit 3"], container="app")
    assert (result.stdout, result.stderr, result.exit_code) == (b"one\ntwo", b"oops", 3)
    assert "one" not in repr(result)
    assert seen["path"] == f"{POD}/exec"
    assert [v for n, v in seen["query"] if n == "command"] == ["sh", "-c", "exit 3"]  # type: ignore[union-attr]
    assert ("container", "app") in seen["query"]  # type: ignore[operator]


async def test_standard_input_is_sent_and_closed(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        data = b""
        async for message in socket:
            if message.data == b"\xff\x00":
                break
            assert message.data[:1] == b"\x00"
            data += message.data[1:]
        await socket.send_bytes(b"\x01" + data.upper())
        await socket.send_bytes(success())
        await socket.close()
        return socket

    client = await serve(handler)
    result = await client.exec("pod", ["cat"], stdin=b"hello " * 20_000)
    assert result.stdout == b"HELLO " * 20_000
    assert result.exit_code == 0


async def test_an_older_server_cannot_close_standard_input_and_says_so(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    client = await serve(handler)
    with pytest.raises(ResponseError, match="cannot close standard input"):
        await client.exec("pod", ["cat"], stdin=b"x")


async def test_a_command_whose_connection_breaks_has_no_exit_code(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01half")
        await socket.close()
        return socket

    client = await serve(handler)
    with pytest.raises(ConnectionLostError, match="may still run"):
        await client.exec("pod", ["sleep", "9"])


async def test_a_refused_exec_is_an_api_error(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)

    client = await serve(handler)
    with pytest.raises(Forbidden, match=f"GET {POD}/exec"):
        await client.exec("pod", ["true"])


async def test_a_command_is_a_list_of_words(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        raise AssertionError("nothing may be sent")

    client = await serve(handler)
    with pytest.raises(ValueError, match="list of words"):
        await client.exec("pod", "ls -l")


async def test_attach_reads_and_writes_and_resizes(serve):
    got: list[bytes] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path.endswith("/attach")
        assert request.query["tty"] == "true"
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        got.append((await socket.receive()).data)
        got.append((await socket.receive()).data)
        await socket.send_bytes(b"\x01bye")
        await socket.send_bytes(success())
        await socket.close()
        return socket

    client = await serve(handler)
    async with client.open_attach("pod", stdin=True, tty=True) as session:
        with pytest.raises(ValueError, match="has not ended"):
            _ = session.exit_code
        await session.resize(80, 24)
        await session.write(b"exit\n")
        assert [item async for item in session] == [("stdout", b"bye")]
        assert session.exit_code == 0
    assert got == [b'\x04{"Width":80,"Height":24}', b"\x00exit\n"]


async def test_a_port_is_forwarded_both_ways(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == f"{POD}/portforward"
        assert request.query["ports"] == "8080"
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x00" + struct.pack("<H", 8080))
        await socket.send_bytes(b"\x01" + struct.pack("<H", 8080))
        async for message in socket:
            if message.type == WSMsgType.BINARY:
                await socket.send_bytes(b"\x00" + message.data[1:].upper())
        return socket

    client = await serve(handler)
    async with client.port_forward("pod", 8080) as forwarding:
        assert forwarding.host == "127.0.0.1"
        for word in (b"one", b"two"):
            reader, writer = await asyncio.open_connection(forwarding.host, forwarding.port)
            writer.write(word)
            assert await reader.readexactly(3) == word.upper()
            writer.close()
            await writer.wait_closed()


async def test_a_pod_that_refuses_a_forwarded_connection_closes_it(serve, capsys):
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x00" + struct.pack("<H", 81))
        await socket.send_bytes(b"\x01" + struct.pack("<H", 81) + b"connection refused")
        await socket.close()
        return socket

    client = await serve(handler)
    async with client.port_forward("pod", 81) as forwarding:
        reader, writer = await asyncio.open_connection(forwarding.host, forwarding.port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_log_lines_arrive_while_they_are_followed(serve):
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert dict(request.query) == {"follow": "true", "container": "app", "tailLines": "5"}
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write("one\u0085still one\ntw".encode())
        await release.wait()
        await response.write(b"o\nend")
        return response

    client = await serve(handler)
    lines = []
    async for line in client.logs("pod", follow=True, container="app", tail_lines=5):
        lines.append(line)
        release.set()
    assert lines == ["one\u0085still one".encode(), b"two", b"end"]


async def test_a_log_that_is_not_there_yet_is_refused(serve):
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"kind": "Status", "code": 400, "reason": "BadRequest", "message": "waiting"}, status=400
        )

    client = await serve(handler)
    with pytest.raises(BadRequest, match="waiting"):
        async for _ in client.logs("pod"):
            pass
