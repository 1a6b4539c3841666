"""A failed attempt to connect frees its memory at once, without the garbage collector, which may run hours later."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from steersman.client.config import Config
from steersman.client.errors import ConnectError
from steersman.client.transport import NativeTransport


@contextmanager
def _cycles() -> Iterator[list[str]]:
    """Yield a list that has, after the block, the types of the objects of the block that only the collector frees."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [type(one).__name__ for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def _fails(port: int) -> None:
    transport = NativeTransport(Config(f"https://localhost:{port}"))
    with pytest.raises(ConnectError):
        await transport.request("GET", "/", timeout=10)
    await transport.close()


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_refused_connection_leaves_no_cycles() -> None:
    async def run() -> list[str]:
        port = _unused_port()
        await _fails(port)  # what the first attempt imports
        with _cycles() as found:
            await _fails(port)
        return found

    assert not {"ConnectError", "Task", "SSLObject", "frame"} & set(asyncio.run(run()))


def test_a_handshake_that_fails_leaves_no_cycles() -> None:
    async def run() -> list[str]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"no TLS at all" * 10)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await _fails(port)
            with _cycles() as found:
                await _fails(port)
        return found

    found = asyncio.run(run())
    assert not {"ConnectError", "SSLObject", "frame", ssl.SSLError.__name__} & set(found)
