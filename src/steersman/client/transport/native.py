"""The default transport: HTTP on the event loop itself, HTTP/2 where the server speaks it and HTTP/1.1 elsewhere.

It exists because the bars for events and updates cannot be met through a library: those that do HTTP in a thread
of their own pay two hand-overs per answer, those in Python ten times the parsing. Here a response is one callback
of the loop, and a watch's bytes are handed on as they come, however many events they hold. The connections are in
`pool`, the protocols in `http1` and `http2`.

What it never does: proxies, web sockets (other transports do), redirects, retries, decompression.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from steersman.client.config import Config
from steersman.client.errors import TransportError
from steersman.client.transport.base import (
    Query,
    RequestHeaders,
    Response,
    StreamResponse,
    Transport,
    WebSocket,
    target,
)
from steersman.client.transport.http2 import RequestNotSentError
from steersman.client.transport.pool import Connections
from steersman.client.transport.streaming import Streams
from steersman.client.transport.wire import Wire
from steersman.models.memo import Memo

__all__ = ["NativeTransport", "can_use_native"]


def can_use_native(config: Config) -> bool:
    """False where a proxy stands between: the others can speak to those."""
    return config.proxy is None


class NativeTransport:
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
        self._prefix = urlsplit(config.server).path.rstrip("/")
        self._pool = Connections(config, http2=http2)
        self._take = self._pool.take
        self._streams = Streams(self._pool)
        self._questions = Memo[Any, str](partial(target, ""), 64)  # each page of a list has its own
        self._sockets: Transport | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
    ) -> Response:
        where = self._where(method, path, query)
        until, tries = 0.0, 0
        while True:
            connection = self._take()
            if connection is None:
                connection, timeout = await self._connect(method, path, timeout)
            until = until or connection.now() + timeout
            answer = connection.ask(method, where, headers, body, timeout)
            try:
                return await answer
            except asyncio.CancelledError:
                connection.unask(answer)
                raise
            except RequestNotSentError:
                timeout = until - connection.now()
                tries += 1
                if tries == self._pool.most_tries or timeout <= 0:
                    raise

    async def _connect(self, method: str, path: str, timeout: float) -> tuple[Wire, float]:
        """A new connection, and what is left of the time."""
        until = asyncio.get_running_loop().time() + timeout
        connection = await self._pool.connect(f"{method} {path}", timeout)
        return connection, until - connection.now()

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
        return self._streams.open(method, path, where, headers, body, connect_timeout, idle_timeout)

    async def websocket(
        self, path: str, *, protocols: Sequence[str], timeout: float, query: Query = (), headers: RequestHeaders = ()
    ) -> WebSocket:
        if self._sockets is None:
            from steersman.client.transport.aiohttp import AiohttpTransport

            self._sockets = AiohttpTransport(self._config)
        return await self._sockets.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        self._streams.close()
        await self._pool.close()
        if self._sockets is not None:
            await self._sockets.close()

    # The request.

    def _where(self, method: str, path: str, query: Query) -> str:
        where = self._prefix + path
        if not where.isascii() or not where.isprintable() or " " in where:
            raise TransportError(f"{method} {path!r}: the path must be percent-encoded")
        if not query:
            return where
        # Nearly all requests of a process ask one of a few questions.
        pairs = query if isinstance(query, tuple) else tuple(query.items() if isinstance(query, Mapping) else query)
        return where + self._questions[pairs]
