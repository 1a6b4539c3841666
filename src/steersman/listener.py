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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["ACCEPT_RETRY_SECONDS", "ConnectionLimits", "Listener", "listening_sockets"]

_BACKLOG: Final = 512
"""Connections that the kernel holds until they are accepted."""
ACCEPT_RETRY_SECONDS: Final = 0.1
"""Pause after the process has run out of file descriptors."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections a server takes, and how long one may take to send a request."""

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
        self._accepting: list[asyncio.Task[None]] = []
        self._all: set[_Connection] = set()
        self._waiting: dict[_Connection, None] = {}
        self._by_protocol: dict[asyncio.BaseProtocol, _Connection] = {}
        self._room = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many connections have not sent a request yet."""
        return len(self._waiting)

    @property
    def accepting(self) -> bool:
        """Whether new connections are accepted."""
        return bool(self._accepting)

    @property
    def connections(self) -> int:
        """How many connections are open or being opened."""
        return len(self._all)

    async def start(self, protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> int:
        """Listen at all addresses of a host with one protocol for each connection; an empty host is every interface.

        Returns the port, which is a free one for 0. Raises `OSError`.
        """
        self._sockets = await listening_sockets(host, port)
        self._accepting = [
            asyncio.create_task(self._accept(one, protocol), name="accept connections") for one in self._sockets
        ]
        return int(self._sockets[0].getsockname()[1])

    def add(self, protocol: Callable[[], asyncio.BaseProtocol], listening: socket.socket) -> None:
        """Accept connections on a socket that listens already, beside the others; it is closed with them."""
        self._sockets.append(listening)
        self._accepting.append(asyncio.create_task(self._accept(listening, protocol), name="accept connections"))

    @property
    def address(self) -> tuple[str, int]:
        """The first address and the port that are listened on."""
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def stop(self) -> None:
        """Stop accepting; handshakes go on."""
        accepting, self._accepting = self._accepting, []
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        for one in self._sockets:
            one.close()

    async def close(self) -> None:
        """Stop accepting, and close the connections that have not sent a request."""
        await self.stop()
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
        self._room.set()

    async def _accept(self, listening: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while len(self._all) >= self.limits.connections and not self._waiting:
                self._room.clear()
                await self._room.wait()
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            if len(self._waiting) >= self.limits.waiting or len(self._all) >= self.limits.connections:
                oldest = next(iter(self._waiting), None)
                if oldest is not None:
                    del self._waiting[oldest]
                    oldest.abort()
            connection = _Connection()
            self._all.add(connection)
            self._waiting[connection] = None
            connection.handshake = asyncio.create_task(self._open(connection, accepted, protocol()), name="handshake")

    async def _open(self, connection: _Connection, accepted: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        """Do the TLS handshake, and arm the timer of the first request."""
        loop = asyncio.get_running_loop()
        self._by_protocol[protocol] = connection
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self.limits.handshake_seconds,
                ssl_shutdown_timeout=self._shutdown_seconds,
            )
        except BaseException as problem:
            accepted.close()
            self._by_protocol.pop(protocol, None)
            self._forget(connection)
            if isinstance(problem, OSError):  # the client left, or does not speak TLS
                return
            raise
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
        one.setblocking(False)
        made.append(one)
    if not made:
        raise problem
    return made
