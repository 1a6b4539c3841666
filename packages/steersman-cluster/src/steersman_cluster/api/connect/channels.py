"""Commands and ports over web sockets: the first byte of each message names its channel (KEP-4006).

`v5.channel.k8s.io` can close the standard input, v4 cannot; otherwise they are one. The first version,
`channel.k8s.io`, tells of failures in plain text. Logs have no channels. Port-forwarding in channels has two for each
port, for data and for errors, and begins each of them with the port's number.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from steersman_cluster.api.requests.messages import Socket
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import Connection, ExecSession
from steersman_cluster.objects import Object, from_json

__all__ = [
    "EXEC_PROTOCOLS",
    "FORWARD_PROTOCOLS",
    "LOG_PROTOCOLS",
    "Connect",
    "copy",
    "ending",
    "exchange",
    "forward",
    "resized",
]

EXEC_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
LOG_PROTOCOLS: Final = ("binary.k8s.io",)
FORWARD_PROTOCOLS: Final = ("v4.channel.k8s.io",)
CHUNK: Final = 64 * 1024
_WITH_STATUS: Final = EXEC_PROTOCOLS[:2]
"""The versions that end with a Status in JSON."""
_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255

Connect: TypeAlias = Callable[[int], Awaitable[Connection]]
"""Opens a connection to a port of the Pod."""


async def exchange(socket: Socket, session: ExecSession, requested: Sequence[int]) -> None:
    """Copy both directions of a command until it ends or the client disconnects.

    `requested` are the output channels that the client requested.
    """
    reading = asyncio.ensure_future(_input(socket, session))
    try:
        async for channel, data in session:
            if channel in requested:
                await socket.send(bytes((channel,)) + data)
        status = ending(await session.wait())
        if socket.protocol in _WITH_STATUS:
            await socket.send(bytes((_ERROR,)) + json.dumps(status).encode())
        elif status["status"] != "Success":
            await socket.send(bytes((_ERROR,)) + str(status["message"]).encode())
    except OSError:
        pass  # the client is gone
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await session.close()
        with suppress(OSError):
            await socket.close()


async def copy(socket: Socket, chunks: AsyncGenerator[bytes]) -> None:
    """Send each chunk as one message, until they end or the client goes; closes both."""
    sending = asyncio.ensure_future(_send_all(socket, chunks))
    reading = asyncio.ensure_future(_until_closed(socket))
    try:
        await asyncio.wait((sending, reading), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
        await chunks.aclose()
        with suppress(OSError):
            await socket.close()


async def _send_all(socket: Socket, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        if chunk:
            await socket.send(chunk)


async def _until_closed(socket: Socket) -> None:
    with suppress(OSError):
        while await socket.receive() is not None:
            pass


async def _input(socket: Socket, session: ExecSession) -> None:
    with suppress(OSError):
        while (message := await socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == _STDIN and data:
                await session.write(data)
            elif channel == _RESIZE:
                await resized(session, data)
            elif channel == _CLOSE and data == bytes((_STDIN,)):
                await session.close_stdin()
    await session.close()


async def resized(session: ExecSession, data: bytes) -> None:
    """Forward the size of a terminal; ignore an invalid one."""
    with suppress(ValueError, KeyError, TypeError):
        size = from_json(data)
        await session.resize(int(size["Width"]), int(size["Height"]))


def ending(code: int) -> Object:
    """Return the Status with the exit code of a command."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def forward(socket: Socket, connect: Connect, ports: Sequence[int]) -> None:
    """One connection for each port, until the client goes or the Pod has closed them all."""
    connections: dict[int, Connection] = {}
    pumps: set[asyncio.Future[None]] = set()
    try:
        for index, port in enumerate(ports):
            data, errors = 2 * index, 2 * index + 1
            for channel in (data, errors):
                await socket.send(bytes((channel,)) + port.to_bytes(2, "little"))
            try:
                connections[data] = await connect(port)
            except (APIError, OSError) as problem:
                await socket.send(bytes((errors,)) + f"error forwarding port {port} to pod: {problem}".encode())
                continue
            pumps.add(asyncio.ensure_future(_pump(socket, data, connections[data])))
        ended = asyncio.ensure_future(_close_after(socket, pumps)) if pumps else None
        try:
            while (message := await socket.receive()) is not None:
                connection = connections.get(message[0]) if message else None
                if connection is not None:
                    connection[1].write(message[1:])
                    with suppress(OSError):
                        await connection[1].drain()
        finally:
            if ended is not None:
                ended.cancel()
    except OSError:
        pass  # the client is gone
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for _, writer in connections.values():
            writer.close()
        with suppress(OSError):
            await socket.close()


async def _pump(socket: Socket, channel: int, connection: Connection) -> None:
    with suppress(OSError):
        while data := await connection[0].read(CHUNK):
            await socket.send(bytes((channel,)) + data)


async def _close_after(socket: Socket, pumps: set[asyncio.Future[None]]) -> None:
    await asyncio.wait(pumps)
    with suppress(OSError):
        await socket.close()
