"""The connections of one client to one server: one for all requests over HTTP/2, one for each at a time over HTTP/1.1.

Connections are kept for 60 s and built anew when the client certificate rotates; those in use finish first. They are
not limited in number: the client limits requests in flight. What is said on them is none of the pool's business.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

from steersman.client.config import ClientCertificate, Config
from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.dialling import Dialler
from steersman.client.transport.http1 import Http1Connection, Http1Encoder
from steersman.client.transport.http2 import MOST_STREAMS, Http2Connection, Http2Encoder
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Wire, inbox

__all__ = ["CLOSED", "Connections"]

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
"""How long an unused connection is kept; servers close theirs after 75 s (nginx) or some minutes (the API server)."""
_MOST_TRIES: Final = 100
CLOSED: Final = "the client is closed"


class Connections:
    """`take` one that is there or, where there is none, `connect`."""

    def __init__(self, config: Config, *, http2: bool) -> None:
        parts = urlsplit(config.server)
        authority = parts.netloc.rpartition("@")[2]
        self.inbox = inbox()
        self._certificate_now = config.auth.client_certificate
        self._dialler = Dialler(config, http2=http2)
        self._encoder1 = Http1Encoder(authority)
        self._encoder2 = Http2Encoder(parts.scheme, authority)
        self._shares = http2 and self._dialler.tls  # until the server is known not to speak it
        self._shared: Http2Connection | None = None
        self._dialling: asyncio.Task[Wire] | None = None
        self._idle: list[Http1Connection] = []
        self._all: set[Wire] = set()
        self._certificate: ClientCertificate | None = None
        self._generation = 0
        self._closed = False
        self.most_tries = _MOST_TRIES
        """How often a request is sent that the server says it has not begun with, each time on a new connection."""

    def take(self) -> Wire | None:
        """A connection that takes a request now."""
        if self._certificate_now() is not self._certificate:
            self._renew()
        shared = self._shared
        if shared is not None:
            busy = len(shared.streams)
            if busy < shared.limit and (busy or shared.now() - shared.idle_since < _IDLE_SECONDS):
                return shared
            return self._other(shared)
        while self._idle:
            # The last one used comes first, so that those which are not needed grow old.
            connection = self._idle.pop()
            fresh = connection.now() - connection.idle_since < _IDLE_SECONDS
            if fresh and connection.usable and connection.generation == self._generation:
                return connection
            connection.abort(TransportError("not used any more"))
        return None

    async def connect(self, what: str, timeout: float) -> Wire:
        """A new connection. Where it may serve many, whoever comes meanwhile waits for it, and fails as it does."""
        try:
            async with asyncio.timeout(timeout):
                while self._shares and not self._closed:
                    await self._dial_for_all()
                    if (connection := self.take()) is not None:
                        return connection
                wire = await self._dial(min(timeout, _CONNECT_SECONDS))
                if isinstance(wire, Http2Connection):  # it has learnt it meanwhile
                    self._shares, self._shared = True, wire
                return wire
        except TimeoutError:
            raise ConnectError(f"{what}: cannot connect: no answer within {timeout:g} s") from None
        except TransportError as problem:
            raise type(problem)(f"{what}: {problem}") from None

    def release(self, connection: Wire) -> None:
        """Nothing is in flight on a connection."""
        if self._closed or connection.generation != self._generation:
            connection.abort(TransportError(CLOSED))
            return
        connection.idle_since = connection.now()
        if isinstance(connection, Http1Connection):
            self._idle.append(connection)

    def forget(self, connection: Wire) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection is self._shared:
            self._shared = None
        elif connection in self._idle:
            self._idle.remove(cast("Http1Connection", connection))

    async def close(self) -> None:
        """Close all; whoever waits is told."""
        self._closed = True
        for connection in list(self._all):
            connection.abort(TransportError(CLOSED))
        self._idle.clear()
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.wait([self._dialling])
        for _ in range(10):  # lets the sockets notice
            if not self._all:
                return
            await asyncio.sleep(0)

    def _other(self, shared: Http2Connection) -> Wire | None:
        """Another connection with room, now that this one has none or is old."""
        now = shared.now()
        for wire in list(self._all):
            if isinstance(wire, Http2Connection):
                if not wire.busy and now - wire.idle_since >= _IDLE_SECONDS:
                    wire.abort(TransportError("not used any more"))
                elif wire.usable:
                    self._shared = wire
                    return wire
        return None

    def _renew(self) -> None:
        """The client certificate is another: what is open ends with what is in flight on it."""
        self._certificate = self._certificate_now()
        self._dialler.presents(self._certificate)
        self._generation += 1
        self._shared = None
        for wire in list(self._all):
            if isinstance(wire, Http2Connection):
                wire.drain()

    async def _dial_for_all(self) -> None:
        """Wait for the one connection that is being made; the first who comes begins, and none ends it by leaving."""
        dialling = self._dialling
        if dialling is None:
            dialling = self._dialling = asyncio.ensure_future(self._dial(_CONNECT_SECONDS))
            dialling.add_done_callback(self._dialled)
        await asyncio.wait([dialling])
        if dialling.cancelled():
            raise TransportError(CLOSED)
        wire = dialling.result()
        left = isinstance(wire, Http2Connection) and not wire.usable and not wire.busy
        if left and wire.generation == self._generation:
            raise ConnectError("cannot connect: the server closed the connection before anything was sent")

    def _dialled(self, task: asyncio.Task[Wire]) -> None:
        self._dialling = None
        if task.cancelled() or task.exception() is not None:
            return  # who waits is told; where nobody does, the error has been heard here
        wire = task.result()
        if not isinstance(wire, Http2Connection):
            self._shares = False  # the server does not speak it: connections need not wait for each other
            self.release(wire)
        elif wire.generation == self._generation:
            self._shared = wire
        else:
            wire.drain()

    async def _dial(self, limit: float) -> Wire:
        if self._closed:
            raise TransportError(CLOSED)
        wire = await self._dialler.dial(partial(self._made, self._generation), limit)
        self._all.add(wire)
        if self._closed:
            wire.abort(TransportError(CLOSED))
            raise TransportError(CLOSED)
        return wire

    def _made(self, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> Wire:
        if tls is not None and tls.protocol == "h2":
            known = min([wire.most for wire in self._all if isinstance(wire, Http2Connection)], default=MOST_STREAMS)
            return Http2Connection(self, generation, transport, tls, self._encoder2, max(1, known))
        return Http1Connection(self, generation, transport, tls, self._encoder1)
