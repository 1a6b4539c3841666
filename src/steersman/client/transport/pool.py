"""The connections of one client to one server: one shared HTTP/2 connection, or one HTTP/1.1 connection per request.

Idle connections are closed after 60 s. New connections are opened after the client certificate rotates; connections in
use close when their requests end. The number of connections has no limit, because the client limits its requests.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from steersman.client.config import ClientCertificate, Config
from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.connection import Connection, receive_buffer
from steersman.client.transport.connector import Connector
from steersman.client.transport.http1 import Http1Connection, Http1Encoder
from steersman.client.transport.http2 import DEFAULT_MAX_STREAMS, Http2Connection, Http2Encoder
from steersman.client.transport.tls import TlsLayer

__all__ = ["CLOSED", "ConnectionPool"]

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
"""Idle connections are closed after this time; servers close theirs after 75 s (nginx) or minutes (kube-apiserver)."""
_MAX_ATTEMPTS: Final = 100
CLOSED: Final = "the client is closed"


class ConnectionPool:
    """`take` returns an existing connection or None; then `connect` opens one."""

    def __init__(self, config: Config, *, http2: bool) -> None:
        parts = urlsplit(config.server)
        authority = parts.netloc.rpartition("@")[2]
        self.receive_buffer = receive_buffer()
        self._certificate_now = config.auth.client_certificate
        self._connector = Connector(config, http2=http2)
        self._encoder1 = Http1Encoder(authority)
        self._encoder2 = Http2Encoder(parts.scheme, authority)
        self._shared_allowed = http2 and self._connector.tls  # False once the server has chosen HTTP/1.1
        self._shared: Http2Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._idle: list[Http1Connection] = []
        self._connections: set[Connection] = set()
        self._certificate: ClientCertificate | None = None
        self._generation = 0
        self._closed = False
        self.max_attempts = _MAX_ATTEMPTS
        """The attempts of a request that the server did not process, each on a new connection."""

    def take(self) -> Connection | None:
        """Return a connection that accepts a request now, or None."""
        if self._certificate_now() is not self._certificate:
            self._renew()
        shared = self._shared
        if shared is not None:
            busy = len(shared.streams)
            if busy < shared.limit and (busy or shared.now() - shared.idle_since < _IDLE_SECONDS):
                return shared
            return self._another(shared)
        while self._idle:
            # The connection that was used last comes first, so that surplus connections become idle and are closed.
            connection = self._idle.pop()
            fresh = connection.now() - connection.idle_since < _IDLE_SECONDS
            if fresh and connection.usable and connection.generation == self._generation:
                return connection
            connection.abort(TransportError("the connection was idle for too long"))
        return None

    async def connect(self, label: str, timeout: float) -> Connection:
        """Open a connection. Callers share one attempt, and its error, if the server supports HTTP/2."""
        try:
            async with asyncio.timeout(timeout):
                while self._shared_allowed and not self._closed:
                    await self._connect_shared()
                    if (connection := self.take()) is not None:
                        return connection
                connection = await self._connect(min(timeout, _CONNECT_SECONDS))
                if isinstance(connection, Http2Connection):  # the server supports HTTP/2 now
                    self._shared_allowed, self._shared = True, connection
                return connection
        except TimeoutError:
            raise ConnectError(f"{label}: cannot connect: no response within {timeout:g} s") from None
        except TransportError as problem:
            raise type(problem)(f"{label}: {problem}") from None

    def release(self, connection: Connection) -> None:
        """Take back a connection that has no request in flight."""
        if self._closed or connection.generation != self._generation:
            connection.abort(TransportError(CLOSED))
            return
        connection.idle_since = connection.now()
        if isinstance(connection, Http1Connection):
            self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)
        if connection is self._shared:
            self._shared = None
        elif isinstance(connection, Http1Connection) and connection in self._idle:
            self._idle.remove(connection)

    async def close(self) -> None:
        """Close all connections; waiting requests fail."""
        self._closed = True
        for connection in list(self._connections):
            connection.abort(TransportError(CLOSED))
        self._idle.clear()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for _ in range(10):  # the event loop closes the sockets
            if not self._connections:
                return
            await asyncio.sleep(0)

    def _another(self, shared: Http2Connection) -> Connection | None:
        """Return another connection that accepts requests, because the shared one is full or idle for too long."""
        now = shared.now()
        for connection in list(self._connections):
            if isinstance(connection, Http2Connection):
                if not connection.busy and now - connection.idle_since >= _IDLE_SECONDS:
                    connection.abort(TransportError("the connection was idle for too long"))
                elif connection.usable:
                    self._shared = connection
                    return connection
        return None

    def _renew(self) -> None:
        """Use the new client certificate for new connections; old ones close when their requests end."""
        self._certificate = self._certificate_now()
        self._connector.use_certificate(self._certificate)
        self._generation += 1
        self._shared = None
        for connection in list(self._connections):
            if isinstance(connection, Http2Connection):
                connection.drain()

    async def _connect_shared(self) -> None:
        """Wait for the shared connection attempt, which continues when one of its callers is cancelled."""
        connecting = self._connecting
        if connecting is None:
            connecting = self._connecting = asyncio.ensure_future(self._connect(_CONNECT_SECONDS))
            connecting.add_done_callback(self._connected)
        await asyncio.wait([connecting])
        if connecting.cancelled():
            raise TransportError(CLOSED)
        try:
            connection = connecting.result()
        finally:
            # The exception of the task refers to this frame, which the garbage collector would have to find.
            del connecting
        left = isinstance(connection, Http2Connection) and not connection.usable and not connection.busy
        if left and connection.generation == self._generation:
            raise ConnectError("cannot connect: the server closed the connection before anything was sent")

    def _connected(self, task: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if task.cancelled() or task.exception() is not None:
            return  # the waiting callers get the error; this read of it avoids a warning if there are none
        connection = task.result()
        if not isinstance(connection, Http2Connection):
            self._shared_allowed = False  # the server has no HTTP/2: attempts to connect need not wait for each other
            self.release(connection)
        elif connection.generation == self._generation:
            self._shared = connection
        else:
            connection.drain()

    async def _connect(self, limit: float) -> Connection:
        if self._closed:
            raise TransportError(CLOSED)
        connection = await self._connector.connect(partial(self._made, self._generation), limit)
        self._connections.add(connection)
        if self._closed:
            connection.abort(TransportError(CLOSED))
            raise TransportError(CLOSED)
        return connection

    def _made(self, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> Connection:
        if tls is not None and tls.protocol == "h2":
            known = min(
                [connection.max_streams for connection in self._connections if isinstance(connection, Http2Connection)],
                default=DEFAULT_MAX_STREAMS,
            )
            return Http2Connection(self, generation, transport, tls, self._encoder2, max(1, known))
        return Http1Connection(self, generation, transport, tls, self._encoder1)
