"""The listening socket of the API server, and the limits on connections that have not sent a request yet.

A connection costs a quarter of a megabyte before its first byte, so both the number of connections and the time until
the first complete request head are bounded. Connections that have sent a request are never closed for others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["ConnectionLimits", "Listener"]

_ACCEPT_RETRY_SECONDS: Final = 0.1
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
    """Accepts TLS connections within limits; `start`, then `close`.

    Args:
        context: The TLS context of the server.
        limits: The limits.
    """

    def __init__(self, context: ssl.SSLContext, limits: ConnectionLimits | None = None) -> None:
        self.limits = limits or ConnectionLimits()
        self._context = context
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._all: set[_Connection] = set()
        self._waiting: dict[_Connection, None] = {}
        self._by_protocol: dict[asyncio.BaseProtocol, _Connection] = {}
        self._room = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many connections have not sent a request yet."""
        return len(self._waiting)

    @property
    def connections(self) -> int:
        """How many connections are open or being opened."""
        return len(self._all)

    async def start(self, protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> int:
        """Listen with one protocol for each connection, and return the port (a free one for 0). Raises `OSError`."""
        address, family = await _address(host, port)
        self._socket = socket.create_server(address, family=family, backlog=512)
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket, protocol), name="accept")
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Stop accepting, and close the connections that have not sent a request."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
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
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
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


async def _address(host: str, port: int) -> tuple[tuple[str, int], socket.AddressFamily]:
    """Return the first address of a host; port 0 would be another one for each."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return (str(address[0]), int(address[1])), family
    return (host, port), socket.AF_INET6 if version == 6 else socket.AF_INET
