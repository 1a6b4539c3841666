"""A local port ends all of its connections, at whatever moment they were accepted."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from steersman.client.local_port import LocalPort


async def forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("steps", range(6))
async def test_a_connection_ends_with_its_port_however_far_its_acceptance_is(steps: int) -> None:
    local = await LocalPort.open(forever)
    with socket.create_connection(local.address, timeout=10) as connection:
        connection.setblocking(False)
        for _ in range(steps):
            await asyncio.sleep(0)
        await local.close()
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionResetError):  # of a connection that was not accepted yet
                assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""


async def test_a_connection_is_closed_when_it_was_served() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")

    local = await LocalPort.open(greet)
    address = local.address
    reader, writer = await asyncio.open_connection(*address)
    assert await reader.read() == b"hello"
    writer.close()
    await local.close()
    await local.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
