"""Listening sockets for TLS, and the limits on connections that have not sent a request yet.

A connection costs a quarter of a megabyte before its first byte, so both the number of connections and the time until
the first complete request head are bounded. Connections that have sent a request are never closed for others. The
API server of the embedded cluster and the webhook server listen with it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Acceptor", "ConnectionLimits", "Listener", "listening_sockets"]

_BACKLOG: Final = 512
"""Connections that the kernel holds until they are accepted."""
_RETRY_SECONDS: Final = 0.1
"""Pause after the process has run out of file descriptors."""


class Acceptor:
    """Accepts connections on listening sockets, from its creation until `close`.

    It accepts in callbacks of the event loop. A task that is cancelled in `sock_accept` can lose an accepted socket,
    and an `asyncio.Server` that is closed between an acceptance and its first callback leaves the connection open.

    Args:
        listening: Sockets that listen and do not block; `close` closes them.
        accepted: Called with the listening socket and each accepted one, which does not block; it owns the latter.
        full: Whether new connections have to wait in the kernel; `resume` ends the wait.
    """

    def __init__(
        self,
        listening: Sequence[socket.socket],
        accepted: Callable[[socket.socket, socket.socket], None],
        full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._accepted = accepted
        self._full = full
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._paused: dict[socket.socket, asyncio.TimerHandle | None] = {}
        self._closed = False
        for one in listening:
            self.add(one)

    def add(self, listening: socket.socket) -> None:
        """Accept on one more socket."""
        self._listening.append(listening)
        self._loop.add_reader(listening, self._accept, listening)

    def resume(self) -> None:
        """Accept the connections that have waited for `full` to end."""
        for one in [one for one, timer in self._paused.items() if timer is None]:
            self._resume(one)

    def close(self) -> None:
        """Stop accepting, and close the listening sockets. Safe to call twice."""
        self._closed = True
        for timer in self._paused.values():
            if timer is not None:
                timer.cancel()
        self._paused.clear()
        for one in self._listening:
            if one.fileno() >= 0:
                self._loop.remove_reader(one)
                one.close()

    def _resume(self, listening: socket.socket) -> None:
        del self._paused[listening]
        self._loop.add_reader(listening, self._accept, listening)

    def _pause(self, listening: socket.socket, timer: asyncio.TimerHandle | None) -> None:
        self._loop.remove_reader(listening)
        self._paused[listening] = timer

    def _accept(self, listening: socket.socket) -> None:
        if self._closed:
            return
        if self._full():
            self._pause(listening, None)
            return
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError:  # the process has run out of file descriptors
            self._pause(listening, self._loop.call_later(_RETRY_SECONDS, self._resume, listening))
            return
        accepted.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
        self._accepted(listening, accepted)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the number of connections of a server, and on the time until a request."""

    connections: int = 4096
    """All connections; with that many that have sent a request, new ones wait in the kernel."""
    waiting: int = 256
    """Connections that have not sent a request yet; the oldest is closed for a new one."""
    handshake_seconds: float = 10.0
    head_seconds: float = 32.0
    """From the end of the TLS handshake to the first complete request head, as in kube-apiserver."""


@dataclass(eq=False, slots=True)
class _Connection:
    """A connection from its acceptance to its end."""

    handshake: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Close it at once, in the handshake or after it."""
        if self.timer is not None:
            self.timer.cancel()
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Listener:
    """Accepts TLS connections within limits; `start`, then `close`, or `stop` first.

    Args:
        context: The TLS context of the server.
        limits: The limits.
        shutdown_seconds: For how long a client may leave the end of TLS unanswered; asyncio's 30 s without it.
    """

    def __init__(
        self, context: ssl.SSLContext, limits: ConnectionLimits | None = None, *, shutdown_seconds: float | None = None
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self._context = context
        self._shutdown_seconds = shutdown_seconds
        self._sockets: list[socket.socket] = []
        self._protocols: dict[socket.socket, Callable[[], asyncio.BaseProtocol]] = {}
        self._acceptor: Acceptor | None = None
        self._all: set[_Connection] = set()
        self._waiting: dict[_Connection, None] = {}
        self._by_protocol: dict[asyncio.BaseProtocol, _Connection] = {}

    @property
    def waiting(self) -> int:
        """The number of connections that have not sent a request yet."""
        return len(self._waiting)

    @property
    def accepting(self) -> bool:
        """Whether new connections are accepted."""
        return self._acceptor is not None

    @property
    def connections(self) -> int:
        """The number of connections that are open or being opened."""
        return len(self._all)

    async def start(self, protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> int:
        """Listen at all addresses of a host with one protocol for each connection; an empty host is every interface.

        Returns the port, which is a free one for 0. Raises `OSError`.
        """
        for one in await listening_sockets(host, port):
            self.add(protocol, one)
        return self.address[1]

    def add(self, protocol: Callable[[], asyncio.BaseProtocol], listening: socket.socket) -> None:
        """Also accept connections on a socket that listens already; it is closed with the others."""
        self._sockets.append(listening)
        self._protocols[listening] = protocol
        if self._acceptor is None:
            self._acceptor = Acceptor((), self._accepted, self._is_full)
        self._acceptor.add(listening)

    @property
    def address(self) -> tuple[str, int]:
        """The first address and the port that are listened on."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def stop(self) -> None:
        """Stop accepting; handshakes go on."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    async def close(self) -> None:
        """Stop accepting, and close the connections that have not sent a request."""
        self.stop()
        handshakes = [one.handshake for one in self._waiting if one.handshake is not None]
        for connection in tuple(self._waiting):
            connection.abort()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def requested(self, protocol: asyncio.BaseProtocol) -> None:
        """Note that a connection has sent a complete request head."""
        connection = self._by_protocol.get(protocol)
        if connection is not None and connection in self._waiting:
            del self._waiting[connection]
            if connection.timer is not None:
                connection.timer.cancel()

    def lost(self, protocol: asyncio.BaseProtocol) -> None:
        """Note that a connection has ended."""
        if (connection := self._by_protocol.pop(protocol, None)) is not None:
            if connection.timer is not None:
                connection.timer.cancel()
            self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        self._waiting.pop(connection, None)
        self._all.discard(connection)
        if self._acceptor is not None:
            self._acceptor.resume()

    def _is_full(self) -> bool:
        """Return whether there is neither room for a connection nor one that may be closed for it."""
        return len(self._all) >= self.limits.connections and not self._waiting

    def _accepted(self, listening: socket.socket, accepted: socket.socket) -> None:
        """Start the handshake of a new connection, and close the oldest that waits if there are too many."""
        if len(self._waiting) >= self.limits.waiting or len(self._all) >= self.limits.connections:
            oldest = next(iter(self._waiting), None)
            if oldest is not None:
                del self._waiting[oldest]
                oldest.abort()
        connection = _Connection()
        protocol = self._protocols[listening]()
        self._all.add(connection)
        self._waiting[connection] = None
        self._by_protocol[protocol] = connection
        opening = asyncio.get_running_loop().create_task(self._open(connection, accepted, protocol), name="handshake")
        connection.handshake = opening

        def opened(
            task: asyncio.Task[None],
        ) -> None:  # it runs also for a task that was cancelled before its first step
            problem = None if task.cancelled() else task.exception()
            if not task.cancelled() and problem is None:
                return
            accepted.close()
            self._by_protocol.pop(protocol, None)
            self._forget(connection)
            if problem is not None and not isinstance(problem, OSError):  # OSError: it left, or does not speak TLS
                context = {"message": "a TLS handshake failed", "exception": problem, "task": task}
                task.get_loop().call_exception_handler(context)

        opening.add_done_callback(opened)

    async def _open(self, connection: _Connection, accepted: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        """Do the TLS handshake, and arm the timer of the first request."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=self._context,
            ssl_handshake_timeout=self.limits.handshake_seconds,
            ssl_shutdown_timeout=self._shutdown_seconds,
        )
        connection.transport = transport
        if connection in self._waiting:
            connection.timer = loop.call_later(self.limits.head_seconds, transport.abort)
        elif protocol not in self._by_protocol:
            transport.abort()


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at all addresses of a host, on one port. Raises `OSError`."""
    try:  # a thread only where a name has to be looked up
        flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    problem = OSError(f"{host} has no address")
    for family, _, _, _, address in dict.fromkeys(found):
        number = port or (made[0].getsockname()[1] if made else 0)
        try:
            one = socket.create_server((str(address[0]), number), family=family, backlog=_BACKLOG)
        except OSError as error:
            problem = error
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # IPv6 on a machine without it
                continue
            for other in made:
                other.close()
            raise
        one.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
        made.append(one)
    if not made:
        raise problem
    return made
