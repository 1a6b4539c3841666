"""The default transport: HTTP/1.1 on the event loop itself; httptools (llhttp, Node.js's parser) reads the protocol.

It exists because the bars for events and updates cannot be met through a library: those that do HTTP in a thread
of their own pay two hand-overs per answer, those in Python ten times the parsing. Here a response is one callback
of the loop, and a watch's bytes are handed on as they come, however many events they hold.

What it never does: HTTP/2, proxies, web sockets (other transports do), redirects, retries, decompression. A connection
on which anything unexpected arrives is closed, never used again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
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
from steersman.client.transport.connection import Connection
from steersman.client.transport.explaining import explained
from steersman.client.transport.idle import IdleWatchdog
from steersman.client.transport.tls import TlsLayer

__all__ = ["NativeTransport", "can_use_native"]

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
"""How long an unused connection is kept; servers close theirs after 75 s (nginx) or some minutes (the API server)."""
_CLOSED: Final = "the client is closed"


def can_use_native(config: Config) -> bool:
    """False where a proxy stands between: the others can speak to those."""
    return config.proxy is None


class NativeTransport(UnsupportedTransport):
    """HTTP/1.1 over plain TCP or TLS, on the running event loop; only the configured CA is trusted.

    Connections are kept for 60 s and built anew when the client certificate rotates; those in use finish first. Not
    limited in number: the client limits requests in flight. Web sockets go through `AiohttpTransport`.
    """

    def __init__(self, config: Config) -> None:
        if not can_use_native(config):
            raise TransportError(f"{config.server} is behind a proxy, which NativeTransport cannot use")
        self._config = config
        parts = urlsplit(config.server)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._start = f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._streams: set[IdleWatchdog] = set()
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None
        self._generation = 0
        self._blocks: dict[Any, str] = {}
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
        request = self._encoded(method, path, query, headers, body)
        connection = self._take() or await self._connect(what, timeout)
        return await connection.exchange(what, request, timeout)

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
        request = self._encoded(method, path, query, headers, body)
        return self._stream(request, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, request: Sequence[bytes], what: str, connect_timeout: float, idle_timeout: float
    ) -> AsyncGenerator[StreamResponse]:
        connection = self._take() or await self._connect(what, connect_timeout)
        status, headers = await connection.open(what, request, connect_timeout)
        watchdog = IdleWatchdog(idle_timeout, what)
        self._streams.add(watchdog)
        try:
            yield StreamResponse(status, headers, _Chunks(connection, watchdog))
        finally:
            self._streams.discard(watchdog)
            watchdog.stop()
            connection.finish()

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
        if self._sockets is not None:
            await self._sockets.close()
        for _ in range(10):  # lets the sockets notice
            if not self._all:
                return
            await asyncio.sleep(0)

    # The pool.

    def release(self, connection: Connection) -> None:
        """A connection is free again."""
        if self._closed or connection.generation != self._generation:
            connection.abort(TransportError(_CLOSED))
            return
        connection.idle_since = connection.now()
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _take(self) -> Connection | None:
        if self._config.auth.client_certificate() is not self._certificate:
            self._context = None
            self._generation += 1
        while self._idle:
            # The last one used comes first, so that those which are not needed grow old.
            connection = self._idle.pop()
            fresh = connection.now() - connection.idle_since < _IDLE_SECONDS
            if fresh and connection.usable and connection.generation == self._generation:
                return connection
            connection.abort(TransportError("not used any more"))
        return None

    async def _connect(self, what: str, timeout: float) -> Connection:
        if self._closed:
            raise TransportError(f"{what}: {_CLOSED}")
        loop = asyncio.get_running_loop()
        name = self._config.tls.server_name or self._host
        limit = min(timeout, _CONNECT_SECONDS)
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
                _, connection = await loop.create_connection(
                    lambda: Connection(self, self._generation, tls), self._host, self._port
                )
                await connection.handshake()
        except TimeoutError:
            raise ConnectError(f"{what}: cannot connect: no answer within {limit:g} s") from None
        except (OSError, UnicodeError) as problem:
            raise ConnectError(f"{what}: cannot connect: {explained(problem)}") from None
        self._all.add(connection)
        if self._closed:
            connection.abort(TransportError(_CLOSED))
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._certificate = self._config.auth.client_certificate()
            self._context = ssl_context(self._config.tls, self._certificate)
        return self._context

    # The request.

    def _encoded(
        self, method: str, path: str, query: Query, headers: RequestHeaders, body: bytes | None
    ) -> Sequence[bytes]:
        where = f"{self._prefix}{path}{self._question(query)}" if query else self._prefix + path
        if not where.isascii() or not where.isprintable() or " " in where:
            raise TransportError(f"{method} {path!r}: the path must be percent-encoded")
        block = self._block(headers)
        if body is None:
            length = "Content-Length: 0\r\n" if method in ("POST", "PUT", "PATCH") else ""
            return (f"{method} {where}{self._start}{block}{length}\r\n".encode("latin-1"),)
        head = f"{method} {where}{self._start}{block}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        return (head + body,) if len(body) < 1 << 16 else (head, body)

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

    def _block(self, headers: RequestHeaders) -> str:
        pairs = headers if isinstance(headers, tuple) else tuple(_pairs(headers))
        block = self._blocks.get(pairs)
        if block is None:
            for name, value in pairs:
                if not _is_header(name) or not _is_header(value):
                    raise TransportError(f"the header {name!r} holds a line break or another control character")
            block = "".join([f"{name}: {value}\r\n" for name, value in pairs])
            if len(self._blocks) > 64:  # tokens rotate
                self._blocks.clear()
            self._blocks[pairs] = block
        return block


class _Chunks:
    __slots__ = ("_connection", "_watchdog")

    def __init__(self, connection: Connection, watchdog: IdleWatchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._watchdog.read(self._connection.read)
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _pairs(pairs: RequestHeaders | Query) -> Iterable[tuple[str, str]]:
    return pairs.items() if isinstance(pairs, Mapping) else pairs


def _is_header(text: str) -> bool:
    try:
        return text.encode("latin-1").isascii() and text.replace("\t", " ").isprintable()
    except UnicodeEncodeError:
        return False
