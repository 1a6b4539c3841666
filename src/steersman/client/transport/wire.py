"""What every connection of the native transport stands on: a socket, the records of TLS, and who must know of its end.

`dial` connects, shakes hands and lets the answer of ALPN (RFC 7301) choose the protocol: HTTP/2 where the server speaks
it, HTTP/1.1 everywhere else. Protocols say `send`, `received` and `ended`, and know nothing of TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from steersman.client.errors import ConnectionLost, TransportError
from steersman.client.transport.base import Headers, Response
from steersman.client.transport.tls import TlsClosed, TlsLayer

__all__ = ["Exchange", "Pool", "Wire", "dial"]


class Pool(Protocol):
    """Where a connection goes when it is free, and who must know when it is gone."""

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

    def finish(self) -> None:
        """The reader leaves; what is left of the response is given up."""
        ...


class Wire(asyncio.Protocol):
    """One connection, encrypted or not. What anything unexpected arrives on is closed and never used again."""

    __slots__ = ("_loop", "_pool", "_problem", "_tls", "_transport", "_what", "generation", "idle_since", "now")

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
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

    async def exchange(self, what: str, request: Any, timeout: float) -> Response:
        """Send a request and wait for the whole response."""
        raise NotImplementedError

    async def open(self, what: str, request: Any, timeout: float) -> Exchange:
        """Send a request and wait for the head of the response."""
        raise NotImplementedError

    def encode(
        self, method: str, where: str, headers: Sequence[tuple[str, str]] | Mapping[str, str], body: bytes | None
    ) -> Any:
        """A request as `exchange` and `open` take it. Raises TransportError for headers that cannot be sent."""
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

    def data_received(self, data: bytes) -> None:
        tls = self._tls
        if tls is None:
            self.received(data)
            return
        try:
            plain = tls.opened(data)
        except TlsClosed as end:
            if end.data:
                self.received(end.data)
            self.ended()
            return
        except ssl.SSLError as problem:
            self._alert(tls)
            self.abort(self._broke(problem))
            return
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


Make = Callable[[asyncio.Transport, TlsLayer | None], Wire]
"""Makes the connection once it is known what the server speaks."""


async def dial(host: str, port: int, tls: TlsLayer | None, make: Make) -> Wire:
    """Connect and shake hands. Raises OSError (ssl.SSLError is one) and ValueError for what either fails of."""
    loop = asyncio.get_running_loop()
    transport, greeting = await loop.create_connection(lambda: _Greeting(tls, make), host, port)
    try:
        return await greeting.done
    except BaseException:
        transport.abort()
        raise


_EARLY: Final = "the server closed the connection during the handshake"


class _Greeting(asyncio.Protocol):
    """Owns the socket until it is known what is spoken on it."""

    def __init__(self, tls: TlsLayer | None, make: Make) -> None:
        self._tls = tls
        self._make = make
        self._transport: Any = None
        self.done: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._tls is None:
            self._finish()
        else:
            self._shake(self._tls, b"")

    def data_received(self, data: bytes) -> None:
        if self._tls is not None and not self.done.done():
            self._shake(self._tls, data)

    def _shake(self, tls: TlsLayer, data: bytes) -> None:
        try:
            shaken = tls.shake(data)
        except (ssl.SSLError, ValueError) as problem:
            shaken = False
            if not self.done.done():
                self.done.set_exception(problem)
        if records := tls.to_send():
            self._transport.write(records)
        if shaken:
            self._finish()

    def _finish(self) -> None:
        wire = self._make(self._transport, self._tls)
        # From here on, also what came together with the end of the handshake is the protocol's.
        self._transport.set_protocol(wire)
        if self.done.done():  # given up meanwhile
            return
        self.done.set_result(wire)
        wire.begin()
        if self._tls is not None:
            wire.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError(_EARLY))
