"""A port of this machine whose connections are served by a coroutine, and end together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeAlias

from steersman.listener import Acceptor, listening_sockets

__all__ = ["LocalPort", "Serve"]

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_LOOPBACK: Final = "127.0.0.1"


class LocalPort:
    """A listening port. `close` ends it and every connection, also one that was accepted a moment before."""

    def __init__(self, serve: Serve, listening: Sequence[socket.socket]) -> None:
        """Accept on sockets that listen already and do not block; they are closed with this."""
        self._serve = serve
        self._address: tuple[str, int] = listening[0].getsockname()[:2]
        self._unopened: set[socket.socket] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(listening, self._accepted)

    @classmethod
    async def open(cls, serve: Serve, host: str = _LOOPBACK, port: int = 0) -> Self:
        """Listen on `host`, on a free port unless one is given; `serve` gets each connection in a task of its own.

        A connection is closed when `serve` returns. Raises `OSError` if the port is in use.
        """
        return cls(serve, await listening_sockets(host, port))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._address

    def stop(self) -> None:
        """Stop listening, and begin to end all connections. Safe to call twice."""
        self._acceptor.close()
        for task in self._connections:
            task.cancel()

    async def close(self) -> None:
        """Stop listening, and close all connections. Safe to call twice."""
        self.stop()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, listening: socket.socket, accepted: socket.socket) -> None:
        del listening
        self._unopened.add(accepted)
        task = asyncio.get_running_loop().create_task(self._served(accepted), name="local connection")
        self._connections.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._connections.discard(task)
            if accepted in self._unopened:  # a task that is cancelled before its first step closes nothing
                self._unopened.discard(accepted)
                accepted.close()

        task.add_done_callback(ended)

    async def _served(self, accepted: socket.socket) -> None:
        self._unopened.discard(accepted)
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
