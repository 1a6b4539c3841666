"""A port of this machine whose connections are served by a coroutine, and end together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeAlias

from steersman.listener import ACCEPT_RETRY_SECONDS, listening_sockets

__all__ = ["LocalPort", "Serve"]

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_LOOPBACK: Final = "127.0.0.1"


class LocalPort:
    """A listening port. `close` ends it and every connection, also one that was accepted a moment before.

    It accepts by itself: an `asyncio.Server` that is closed between the acceptance of a connection and its first
    callback leaves that connection open.
    """

    def __init__(self, serve: Serve, listening: Sequence[socket.socket]) -> None:
        """Accept on sockets that listen already and do not block; they are closed with this."""
        self._serve = serve
        self._listening = listening
        self._unopened: set[socket.socket] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        for one in listening:
            self._loop.add_reader(one, self._accept, one)

    @classmethod
    async def open(cls, serve: Serve, host: str = _LOOPBACK, port: int = 0) -> Self:
        """Listen on `host`, on a free port unless one is given; `serve` gets each connection in a task of its own.

        A connection is closed when `serve` returns. Raises `OSError` if the port is in use.
        """
        return cls(serve, await listening_sockets(host, port))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._listening[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Stop listening, and close all connections. Safe to call twice."""
        for one in self._listening:
            if one.fileno() >= 0:
                self._loop.remove_reader(one)
        for timer in self._retries.values():
            timer.cancel()
        ending = tuple(self._connections)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for one in (*self._listening, *self._unopened):  # a task cancelled before its first step closes nothing
            one.close()
        self._unopened.clear()

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection. It is a callback: a task that is cancelled here could lose an accepted socket."""
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError:  # the process has run out of file descriptors
            self._loop.remove_reader(listening)
            again = self._loop.call_later(
                ACCEPT_RETRY_SECONDS, self._loop.add_reader, listening, self._accept, listening
            )
            self._retries[listening] = again
            return
        accepted.setblocking(False)
        self._unopened.add(accepted)
        task = self._loop.create_task(self._served(accepted), name="local connection")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _served(self, accepted: socket.socket) -> None:
        self._unopened.discard(accepted)
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
