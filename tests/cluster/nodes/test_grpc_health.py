"""Probes of the kind grpc against servers that speak HTTP/2."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import h2.config
import h2.connection
import h2.events
import pytest

from steersman_cluster.nodes.process.handlers import Outcome, act

Answer = Callable[[h2.connection.H2Connection, int, bytes], None]


@asynccontextmanager
async def health_server(answer: Answer) -> AsyncGenerator[int]:
    """A server of HTTP/2 that sends a PING first and answers each complete request; yields its port."""

    handlers: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        connection.ping(b"12345678")
        body, pinged, stream = b"", False, 0
        with suppress(OSError):
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        assert dict(event.headers)[b":path"] == b"/grpc.health.v1.Health/Check"
                    if isinstance(event, h2.events.DataReceived):
                        body += event.data
                    if isinstance(event, h2.events.PingAckReceived):
                        pinged = True
                    if isinstance(event, h2.events.StreamEnded):
                        stream = event.stream_id
                if stream and pinged:
                    answer(connection, stream, body)
                    stream = 0
                writer.write(connection.data_to_send())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*(task for task in handlers if task is not None))


async def probed(port: int, service: str = "", seconds: float = 10.0) -> Outcome:
    async def execute(_: object) -> tuple[int, str]:
        raise AssertionError

    action = {"grpc": {"port": port, "service": service}}
    return await act(action, {"name": "c"}, "127.0.0.1", execute, seconds)


def health(message: bytes) -> Answer:
    def answer(connection: h2.connection.H2Connection, stream: int, _: bytes) -> None:
        connection.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        connection.send_data(stream, b"\0" + len(message).to_bytes(4, "big") + message, pad_length=3)
        connection.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    return answer


@pytest.mark.parametrize(
    ("message", "status"),
    [(b"\x08\x01", ""), (b"\x08\x02", "NOT_SERVING"), (b"\x08\x03", "SERVICE_UNKNOWN"), (b"", "UNKNOWN")],
)
async def test_a_server_passes_only_while_it_serves(message: bytes, status: str) -> None:
    async with health_server(health(message)) as port:
        text = f'service unhealthy (responded with "{status}")' if status else ""
        assert await probed(port) == (not status, text)


async def test_the_request_names_the_service() -> None:
    name = "s" * 200
    requests: list[bytes] = []

    def answer(connection: h2.connection.H2Connection, stream: int, body: bytes) -> None:
        requests.append(body)
        health(b"\x08\x01")(connection, stream, body)

    async with health_server(answer) as port:
        assert await probed(port, name) == (True, "")
    assert requests == [b"\0\0\0\0\xcb\x0a\xc8\x01" + name.encode()]


async def test_an_error_in_the_trailers_alone_fails_the_probe() -> None:
    def answer(connection: h2.connection.H2Connection, stream: int, _: bytes) -> None:
        connection.send_headers(stream, [(":status", "200"), ("grpc-status", "12")], end_stream=True)

    async with health_server(answer) as port:
        assert await probed(port) == (False, "service unhealthy (the server answered with an error)")


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\0\0\0\0\0" * 100])
async def test_a_server_of_another_protocol_fails_the_probe(data: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        passed, text = await probed(server.sockets[0].getsockname()[1])
    assert not passed
    assert text.startswith("failed to connect service")


async def test_a_server_that_never_answers_fails_the_probe_in_time() -> None:
    async with health_server(lambda *_: None) as port:
        passed, text = await probed(port, seconds=0.2)
    assert (passed, text) == (False, "dial tcp: context deadline exceeded")
