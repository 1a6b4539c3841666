"""A listener for TLS ends with all connections that have not sent a request, and keeps its limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest

from steersman.listener import ConnectionLimits, Listener


def listener(**limits: int) -> Listener:
    return Listener(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ConnectionLimits(**limits))


async def ended(connection: socket.socket) -> None:
    connection.setblocking(False)
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionResetError):  # of a connection that was not accepted yet
            assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""


@pytest.mark.parametrize("steps", range(6))
async def test_a_connection_ends_with_its_listener_however_far_its_acceptance_is(steps: int) -> None:
    listening = listener()
    await listening.start(asyncio.Protocol, "127.0.0.1", 0)
    with socket.create_connection(listening.address, timeout=10) as connection:
        for _ in range(steps):
            await asyncio.sleep(0)
        await listening.close()
        await ended(connection)
    assert listening.connections == 0


async def test_the_oldest_connection_without_a_request_is_closed_for_a_new_one() -> None:
    listening = listener(connections=2)
    await listening.start(asyncio.Protocol, "127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        first, second, third = (
            stack.enter_context(socket.create_connection(listening.address, timeout=10)) for _ in range(3)
        )
        await ended(first)
        assert listening.connections == 2
        await listening.close()
        await ended(second)
        await ended(third)


async def test_new_connections_wait_in_the_kernel_while_all_others_have_sent_a_request() -> None:
    listening = listener(connections=1)
    accepted: list[asyncio.BaseProtocol] = []

    def protocol() -> asyncio.Protocol:
        accepted.append(made := asyncio.Protocol())
        return made

    await listening.start(protocol, "127.0.0.1", 0)
    with socket.create_connection(listening.address), socket.create_connection(listening.address) as second:
        while not accepted:  # noqa: ASYNC110 - the kernel has no event for it
            await asyncio.sleep(0)
        listening.requested(accepted[0])
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(accepted) == 1
        listening.lost(accepted[0])
        async with asyncio.timeout(10):
            while len(accepted) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await listening.close()
        await ended(second)
