"""Connections to a peer on loopback that answers, does not answer, or violates the protocol."""

import asyncio
import contextlib
import dataclasses

import pytest

from rocketmq.remoting import (
    Command,
    Connection,
    ConnectionClosedError,
    FrameParser,
    RefusedError,
    RemotingError,
    RequestTimeoutError,
    encode,
)
from rocketmq.remoting.connection import MAX_PENDING_REQUESTS

RESPONSE = 1


class Peer:
    """A server that records the commands that it receives, and sends the responses of the test."""

    def __init__(self):
        self.commands: asyncio.Queue[Command] = asyncio.Queue()
        self.writer: asyncio.StreamWriter | None = None

    async def serve(self, reader, writer):
        self.writer, parser = writer, FrameParser()
        try:
            while data := await reader.read(65536):
                for command in parser.feed(data):
                    self.commands.put_nowait(command)
        except OSError:
            pass
        finally:
            writer.close()

    def answer(self, command, **changes):
        self.send(encode(dataclasses.replace(Command(0, command.opaque, RESPONSE), **changes)))

    def send(self, data):
        assert self.writer is not None
        self.writer.write(data)


@contextlib.asynccontextmanager
async def connected():
    peer = Peer()
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with await Connection.open(f"127.0.0.1:{port}") as connection:
            yield peer, connection


async def test_answers_in_another_order_reach_their_requests():
    async with connected() as (peer, connection), asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(connection.request(code)) for code in (28, 26))
        one, two = await peer.commands.get(), await peer.commands.get()
        peer.answer(two, body=b"two")
        peer.answer(one, body=b"one")
        assert ((await first).body, (await second).body) == (b"one", b"two")


async def test_a_late_answer_does_not_reach_the_next_request():
    async with connected() as (peer, connection):
        with pytest.raises(RequestTimeoutError, match="did not answer request 28 within"):
            await connection.request(28, timeout_seconds=0.02)
        peer.answer(await peer.commands.get(), body=b"late")
        request = asyncio.create_task(connection.request(28))
        peer.answer(await peer.commands.get(), body=b"next")
        assert (await request).body == b"next"


async def test_a_request_of_the_server_is_no_answer():
    async with connected() as (peer, connection):
        request = asyncio.create_task(connection.request(28))
        command = await peer.commands.get()
        peer.send(encode(Command(40, command.opaque)))
        peer.answer(command, body=b"answer")
        assert (await request).body == b"answer"


async def test_a_refusal_names_the_server_the_request_and_the_remark():
    async with connected() as (peer, connection):
        request = asyncio.create_task(connection.request(105))
        peer.answer(await peer.commands.get(), code=17, remark="no route")
        with pytest.raises(RefusedError, match="refused request 105 with code 17: no route") as refused:
            await request
        assert refused.value.address == connection.address


async def test_a_oneway_request_is_marked_and_waits_for_nothing():
    async with connected() as (peer, connection):
        await connection.send_oneway(34, {"a": "b"})
        command = await peer.commands.get()
        assert (command.code, command.flag, command.fields) == (34, 2, {"a": "b"})


async def test_close_fails_the_requests_that_wait():
    async with connected() as (peer, connection):
        request = asyncio.create_task(connection.request(28))
        await peer.commands.get()
        await connection.close()
        with pytest.raises(ConnectionClosedError, match="closed by this side"):
            await request
        with pytest.raises(ConnectionClosedError, match="closed by this side"):
            await connection.request(28)


async def test_a_server_that_closes_fails_the_requests_that_wait():
    async with connected() as (peer, connection):
        request = asyncio.create_task(connection.request(28))
        await peer.commands.get()
        peer.writer.close()
        with pytest.raises(ConnectionClosedError, match="has ended"):
            await request
        assert connection.closed


async def test_bytes_that_are_no_frame_end_the_connection():
    async with connected() as (peer, connection):
        request = asyncio.create_task(connection.request(28))
        await peer.commands.get()
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ConnectionClosedError, match="serialization"):
            await request


async def test_requests_without_an_answer_are_bounded():
    async with connected() as (_, connection):
        waiting = [asyncio.create_task(connection.request(28)) for _ in range(MAX_PENDING_REQUESTS)]
        await asyncio.sleep(0)
        with pytest.raises(RemotingError, match="has not answered 256 requests"):
            await connection.request(28)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:70000", "host:x"])
async def test_an_address_that_is_not_valid_is_refused(address):
    with pytest.raises(RemotingError, match="use HOST:PORT"):
        await Connection.open(address)


async def test_a_port_where_nothing_listens_is_reported():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionClosedError, match=f"127.0.0.1:{port} does not accept connections"):
        await Connection.open(f"127.0.0.1:{port}")
