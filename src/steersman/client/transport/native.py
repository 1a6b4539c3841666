"""The default transport: HTTP on the event loop itself, HTTP/2 where the server speaks it and HTTP/1.1 elsewhere.

It exists because the bars for events and updates cannot be met through a library: those that do HTTP in a thread
of their own pay two hand-overs per answer, those in Python ten times the parsing. Here a response is one callback
of the loop, and a watch's bytes are handed on as they come, however many events they hold. This module is the pool;
the protocols are `http1` and `http2`.

What it never does: proxies, web sockets (other transports do), redirects, retries, decompression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, cast
from urllib.parse import urlsplit

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.base import (
    Query,
    RequestHeaders,
    Response,
    StreamResponse,
    Transport,
    UnsupportedTransport,
    WebSocket,
    target,
)
from steersman.client.transport.explaining import explained
from steersman.client.transport.http1 import Http1Connection, Http1Encoder
from steersman.client.transport.http2 import MOST_STREAMS, Http2Connection, NotBegun
from steersman.client.transport.http2_wire import Http2Encoder
from steersman.client.transport.idle import IdleWatchdog
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Exchange, Wire, dial

__all__ = ["NativeTransport", "can_use_native"]

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
"""How long an unused connection is kept; servers close theirs after 75 s (nginx) or some minutes (the API server)."""
_MOST_TRIES: Final = 100
"""How often a request is sent that the server says it has not begun with, each time on a new connection."""
_CLOSED: Final = "the client is closed"


def can_use_native(config: Config) -> bool:
    """False where a proxy stands between: the others can speak to those."""
    return config.proxy is None


class NativeTransport(UnsupportedTransport):
    """HTTP over plain TCP or TLS, on the running event loop; only the configured CA is trusted.

    Over TLS, a server that speaks HTTP/2 gets one connection for as many requests and watches as it allows at a time
    (`http2=False`: it is not asked). Connections are kept for 60 s and built anew when the client certificate rotates;
    those in use finish first. Not limited in number: the client limits requests in flight. Web sockets go through
    `AiohttpTransport`.
    """

    def __init__(self, config: Config, *, http2: bool = True) -> None:
        if not can_use_native(config):
            raise TransportError(f"{config.server} is behind a proxy, which NativeTransport cannot use")
        self._config = config
        parts = urlsplit(config.server)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        authority = parts.netloc.rpartition("@")[2]
        self._encode1 = Http1Encoder(authority)
        self._encode2 = Http2Encoder(parts.scheme, authority)
        self._http2 = http2
        self._shares = http2  # until the server is known not to speak it
        self._shared: Http2Connection | None = None
        self._dialling: asyncio.Task[Wire] | None = None
        self._idle: list[Http1Connection] = []
        self._all: set[Wire] = set()
        self._streams: set[IdleWatchdog] = set()
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None
        self._generation = 0
        self._questions: dict[Any, str] = {}
        self._sockets: Transport | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        timeout: float,
    ) -> Response:
        what = f"{method} {path}"
        where = self._where(method, path, query)
        until = asyncio.get_running_loop().time() + timeout
        tries = 0
        while True:
            connection = self._take()
            if connection is None:
                connection = await self._connect(what, timeout)
                timeout = until - connection.now()
            try:
                return await connection.exchange(what, connection.encode(method, where, headers, body), timeout)
            except NotBegun:
                timeout = until - connection.now()
                tries += 1
                if tries == _MOST_TRIES or timeout <= 0:
                    raise

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AbstractAsyncContextManager[StreamResponse]:
        where = self._where(method, path, query)
        return self._stream(method, where, headers, body, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self,
        method: str,
        where: str,
        headers: RequestHeaders,
        body: bytes | None,
        what: str,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AsyncGenerator[StreamResponse]:
        exchange: Exchange | None = None
        until = asyncio.get_running_loop().time() + connect_timeout
        tries = 0
        while exchange is None:
            connection = self._take() or await self._connect(what, until - asyncio.get_running_loop().time())
            left = until - connection.now()
            try:
                exchange = await connection.open(what, connection.encode(method, where, headers, body), left)
            except NotBegun:
                tries += 1
                if tries == _MOST_TRIES or connection.now() >= until:
                    raise
        watchdog = IdleWatchdog(idle_timeout, what)
        self._streams.add(watchdog)
        try:
            yield StreamResponse(exchange.status, exchange.headers, _Chunks(exchange, watchdog))
        finally:
            self._streams.discard(watchdog)
            watchdog.stop()
            exchange.finish()

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        if self._sockets is None:
            from steersman.client.transport.aiohttp import AiohttpTransport

            self._sockets = AiohttpTransport(self._config)
        return await self._sockets.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        self._closed = True
        for watchdog in self._streams:
            watchdog.fail(TransportError(_CLOSED))
        for connection in list(self._all):
            connection.abort(TransportError(_CLOSED))
        self._idle.clear()
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.wait([self._dialling])
        if self._sockets is not None:
            await self._sockets.close()
        for _ in range(10):  # lets the sockets notice
            if not self._all:
                return
            await asyncio.sleep(0)

    # The pool.

    def release(self, connection: Wire) -> None:
        """Nothing is in flight on a connection."""
        if self._closed or connection.generation != self._generation:
            connection.abort(TransportError(_CLOSED))
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

    def _take(self) -> Wire | None:
        if self._config.auth.client_certificate() is not self._certificate:
            self._renew()
        shared = self._shared
        if shared is not None:
            if shared.usable and (shared.busy or shared.now() - shared.idle_since < _IDLE_SECONDS):
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
        self._certificate = self._config.auth.client_certificate()
        self._context = None
        self._generation += 1
        self._shared = None
        for wire in list(self._all):
            if isinstance(wire, Http2Connection):
                wire.drain()

    async def _connect(self, what: str, timeout: float) -> Wire:
        """A new connection. Where it may serve many, whoever comes meanwhile waits for it, and fails as it does."""
        try:
            async with asyncio.timeout(timeout):
                while self._tls and self._shares and not self._closed:
                    await self._dial_for_all()
                    if (connection := self._take()) is not None:
                        return connection
                wire = await self._dial(min(timeout, _CONNECT_SECONDS))
                if isinstance(wire, Http2Connection):  # it has learnt it meanwhile
                    self._shares, self._shared = True, wire
                return wire
        except TimeoutError:
            raise ConnectError(f"{what}: cannot connect: no answer within {timeout:g} s") from None
        except TransportError as problem:
            raise type(problem)(f"{what}: {problem}") from None

    async def _dial_for_all(self) -> None:
        """Wait for the one connection that is being made; the first who comes begins, and none ends it by leaving."""
        dialling = self._dialling
        if dialling is None:
            dialling = self._dialling = asyncio.ensure_future(self._dial(_CONNECT_SECONDS))
            dialling.add_done_callback(self._dialled)
        await asyncio.wait([dialling])
        if dialling.cancelled():
            raise TransportError(_CLOSED)
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
            raise TransportError(_CLOSED)
        name = self._config.tls.server_name or self._host
        made = partial(self._made, self._generation)
        try:
            context = self._tls_context() if self._tls else None
        except (ssl.SSLError, ValueError) as problem:
            # The message may quote the PEM: only say which of our inputs was refused.
            raise TransportError(
                f"{self._config.server}: the TLS settings cannot be used ({type(problem).__name__}): check that the CA,"
                " the client certificate and its key are PEM and belong together"
            ) from None
        try:
            async with asyncio.timeout(limit):
                tls = None if context is None else TlsLayer(context, name)
                wire = await dial(self._host, self._port, tls, made)
        except TimeoutError:
            raise ConnectError(f"cannot connect: no answer within {limit:g} s") from None
        except (OSError, ValueError) as problem:
            raise ConnectError(f"cannot connect: {explained(problem)}") from None
        self._all.add(wire)
        if self._closed:
            wire.abort(TransportError(_CLOSED))
            raise TransportError(_CLOSED)
        return wire

    def _made(self, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> Wire:
        if tls is not None and tls.protocol == "h2":
            known = min([wire.most for wire in self._all if isinstance(wire, Http2Connection)], default=MOST_STREAMS)
            return Http2Connection(self, generation, transport, tls, self._encode2, max(1, known))
        return Http1Connection(self, generation, transport, tls, self._encode1)

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl_context(self._config.tls, self._certificate)
            if self._http2:
                self._context.set_alpn_protocols(["h2", "http/1.1"])
        return self._context

    # The request.

    def _where(self, method: str, path: str, query: Query) -> str:
        where = f"{self._prefix}{path}{self._question(query)}" if query else self._prefix + path
        if not where.isascii() or not where.isprintable() or " " in where:
            raise TransportError(f"{method} {path!r}: the path must be percent-encoded")
        return where

    def _question(self, query: Query) -> str:
        # Nearly all requests of a process ask one of a few questions.
        pairs = tuple(query.items() if isinstance(query, dict) else _pairs(query))
        question = self._questions.get(pairs)
        if question is None:
            question = target("", pairs)
            if len(self._questions) > 64:  # each page of a list has its own
                self._questions.clear()
            self._questions[pairs] = question
        return question


class _Chunks:
    __slots__ = ("_exchange", "_watchdog")

    def __init__(self, exchange: Exchange, watchdog: IdleWatchdog) -> None:
        self._exchange = exchange
        self._watchdog = watchdog

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._watchdog.read(self._exchange.read)
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _pairs(pairs: Query) -> Iterable[tuple[str, str]]:
    return pairs.items() if isinstance(pairs, Mapping) else pairs
