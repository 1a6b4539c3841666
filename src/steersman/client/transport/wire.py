"""What every connection of the native transport stands on: a socket, the records of TLS, and who must know of its end.

Protocols (`http1`, `http2`) say `send`, `received` and `ended`, and know nothing of TLS; `dialling` makes them.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, Protocol

from steersman.client.errors import ConnectionLost, TransportError
from steersman.client.transport.base import Headers, RequestHeaders, Response, Take
from steersman.client.transport.tls import TlsClosedError, TlsLayer

__all__ = ["Exchange", "Pool", "Wire", "asked", "inbox"]

INBOX: Final = 64 * 1024
"""Bytes that are received, decrypted and read at a time: what comes of them is still in the processor's caches."""


def inbox() -> memoryview:
    """Where the connections of one event loop receive: what is in it is taken out before the loop reads again."""
    return memoryview(bytearray(INBOX))


def asked(method: str, where: str) -> str:
    """A request as errors call it: without the query, which may hold what is nobody's business."""
    return f"{method} {where.partition('?')[0]}"


class Pool(Protocol):
    """Where a connection goes when it is free, and who must know when it is gone."""

    inbox: memoryview
    """What all of them receive in."""

    def release(self, connection: Any) -> None:
        """Nothing is in flight on it any more."""
        ...

    def forget(self, connection: Any) -> None:
        """It is gone."""
        ...


class Exchange(Protocol):
    """A response that is read as it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    async def read(self) -> bytes:
        """The bytes of the body that are there, or the next ones; `b""` at its end."""
        ...

    async def pour(self, take: Take) -> bool:
        """Give all that comes to `take`, until that wants no more (true) or the body ends (false)."""
        ...

    def finish(self) -> None:
        """The reader leaves; what is left of the response is given up."""
        ...


class Wire:
    """One connection, encrypted or not. What anything unexpected arrives on is closed and never used again.

    It has what the loop calls, but is none of asyncio's protocols, whose classes cannot be compiled: `dialling` hands
    it to the loop.
    """

    __slots__ = (
        "_inbox",
        "_loop",
        "_pool",
        "_problem",
        "_tls",
        "_transport",
        "_what",
        "generation",
        "idle_since",
        "now",
    )

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._inbox = pool.inbox
        self._tls = tls
        self._transport: asyncio.Transport | None = transport
        self._problem: TransportError | None = None
        self._what = ""  # the request that the connection is busy with, where there is one at a time
        self.now = self._loop.time
        self.generation = generation
        self.idle_since = self.now()

    # What a protocol says.

    def begin(self) -> None:
        """The handshake is over; nothing has been said yet."""

    def received(self, data: bytes) -> None:
        """Plain text has come."""
        raise NotImplementedError

    def ended(self) -> None:
        """The server has ended the connection properly."""
        raise NotImplementedError

    def fail(self, problem: TransportError) -> None:
        """The connection is lost: everybody who waits is told."""
        raise NotImplementedError

    @property
    def usable(self) -> bool:
        """Whether another request may be sent now."""
        raise NotImplementedError

    def ask(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        """Send a request; the future is of the whole response. Whoever leaves it before that says so to `unask`.

        `where` is the path and the encoded query. Raises TransportError for headers that cannot be sent.
        """
        raise NotImplementedError

    def unask(self, answer: asyncio.Future[Response]) -> None:
        """Nobody waits for the answer any more; nothing happens where it has come."""
        raise NotImplementedError

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Exchange:
        """Send a request and wait for the head of the response."""
        raise NotImplementedError

    # What they need.

    def send(self, data: bytes) -> None:
        """Send plain text; nothing happens on a lost connection."""
        if (transport := self._transport) is not None:
            tls = self._tls
            transport.write(data if tls is None else tls.sealed(data))

    def abort(self, problem: TransportError) -> None:
        """Close at once; whoever waits gets `problem`."""
        if self._problem is None:
            self._problem = problem
        self.fail(self._problem)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    # What the loop calls.

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        tls, data = self._tls, self._inbox[:nbytes]
        if tls is None:
            self.received(bytes(data))
        else:
            self._opened(tls, data)

    def _opened(self, tls: TlsLayer, data: memoryview) -> None:
        try:
            plain = tls.opened(data)
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

    def _broke(self, why: object) -> ConnectionLost:
        return ConnectionLost(f"{self._what}{': ' if self._what else ''}the connection broke: {why}")

    def _alert(self, tls: TlsLayer) -> None:
        """Send what TLS has to say of itself."""
        if (records := tls.to_send()) and self._transport is not None:
            self._transport.write(records)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._tls is None and self._transport is not None:
            self.ended()
        self._transport = None
        if self._problem is None:
            self._problem = self._broke(exc or "closed by the server")
        self.fail(self._problem)
        self._pool.forget(self)
