"""The base class of the native transport's connections: socket, TLS and the end of the connection.

The protocols (`http1`, `http2`) implement `received`, `ended` and `fail`, and call `send`. `connector` opens
connections.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, Protocol

from steersman.client.errors import ConnectionLostError, TransportError
from steersman.client.transport.base import ChunkConsumer, Headers, RequestHeaders, Response
from steersman.client.transport.tls import TlsClosedError, TlsLayer

__all__ = ["Connection", "Exchange", "Pool", "receive_buffer", "request_label"]

RECEIVE_BUFFER_BYTES: Final = 64 * 1024
"""Bytes that are received, decrypted and parsed at a time, while they are in the processor's caches."""


def receive_buffer() -> memoryview:
    """Return the receive buffer that all connections of one event loop share; it is emptied before the next read."""
    return memoryview(bytearray(RECEIVE_BUFFER_BYTES))


def request_label(method: str, where: str) -> str:
    """Return a request as error messages name it: without the query, which may hold confidential values."""
    return f"{method} {where.partition('?')[0]}"


class Pool(Protocol):
    """The pool's methods that a connection calls."""

    receive_buffer: memoryview
    """The receive buffer of all connections."""

    def release(self, connection: Any) -> None:
        """Take back a connection that has no request in flight."""
        ...

    def forget(self, connection: Any) -> None:
        """Remove a closed connection."""
        ...


class Exchange(Protocol):
    """A response that is read in pieces."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers of the response."""
        ...

    async def read(self) -> bytes:
        """Return the available bytes of the body, or wait for the next ones; `b""` at its end."""
        ...

    async def deliver(self, take: ChunkConsumer) -> bool:
        """Pass the body to `take` until it returns True, or until the end (returns False)."""
        ...

    def finish(self) -> None:
        """End reading; cancel a response that is not complete."""
        ...


class Connection:
    """One connection, with or without TLS. It is closed when unexpected data arrives.

    It has the methods of `asyncio.BufferedProtocol` without deriving from it, because mypyc cannot compile such
    classes; `connector` connects it to the event loop.
    """

    __slots__ = (
        "_label",
        "_loop",
        "_pool",
        "_problem",
        "_receive_buffer",
        "_tls",
        "_transport",
        "generation",
        "idle_since",
        "now",
    )

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._receive_buffer = pool.receive_buffer
        self._tls = tls
        self._transport: asyncio.Transport | None = transport
        self._problem: TransportError | None = None
        self._label = ""  # the current request, on connections with one request at a time
        self.now = self._loop.time
        self.generation = generation
        self.idle_since = self.now()

    # Methods that a protocol implements.

    def begin(self) -> None:
        """Send the first bytes after the handshake."""

    def received(self, data: bytes) -> None:
        """Handle received plain text."""
        raise NotImplementedError

    def ended(self) -> None:
        """Handle the orderly end of the connection by the server."""
        raise NotImplementedError

    def fail(self, problem: TransportError) -> None:
        """Fail all pending requests after the connection was lost."""
        raise NotImplementedError

    @property
    def usable(self) -> bool:
        """Whether another request may be sent now."""
        raise NotImplementedError

    def send_request(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        """Send a request and return the future of the complete response. Call `cancel_request` to cancel it.

        `where` is the request target: the path and the encoded query. Raises TransportError for invalid headers.
        """
        raise NotImplementedError

    def cancel_request(self, response: asyncio.Future[Response]) -> None:
        """Cancel a request, unless its response is complete."""
        raise NotImplementedError

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Exchange:
        """Send a request and wait for the response headers."""
        raise NotImplementedError

    # Methods that a protocol calls.

    def send(self, data: bytes) -> None:
        """Send plain text; does nothing on a lost connection."""
        if (transport := self._transport) is not None:
            tls = self._tls
            transport.write(data if tls is None else tls.encrypt(data))

    def abort(self, problem: TransportError) -> None:
        """Close the connection at once; pending requests fail with `problem`."""
        if self._problem is None:
            self._problem = problem
        self.fail(self._problem)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    # Methods that the event loop calls.

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for received bytes."""
        return self._receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes."""
        tls, data = self._tls, self._receive_buffer[:nbytes]
        if tls is None:
            self.received(bytes(data))
        else:
            self._opened(tls, data)

    def _opened(self, tls: TlsLayer, data: memoryview) -> None:
        try:
            plain = tls.decrypt(data)
        except TlsClosedError as end:
            if end.data:
                self.received(end.data)
            self.ended()
            return
        except ssl.SSLError as problem:
            self._alert(tls)
            self.abort(self._broke(problem))
            return
        if tls.outgoing.pending:
            self._alert(tls)
        if plain:
            self.received(plain)

    def _broke(self, why: object) -> ConnectionLostError:
        return ConnectionLostError(f"{self._label}{': ' if self._label else ''}the connection broke: {why}")

    def _alert(self, tls: TlsLayer) -> None:
        """Send the records that TLS itself must send."""
        if (records := tls.to_send()) and self._transport is not None:
            self._transport.write(records)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        if exc is None and self._tls is None and self._transport is not None:
            self.ended()
        self._transport = None
        if self._problem is None:
            self._problem = self._broke(exc or "closed by the server")
        self.fail(self._problem)
        self._pool.forget(self)
