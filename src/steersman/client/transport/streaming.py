"""The responses of the native transport that are read as they come: watches, logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from steersman.client.errors import TransportError
from steersman.client.transport.base import RequestHeaders, StreamResponse, Take
from steersman.client.transport.http2 import RequestNotSentError
from steersman.client.transport.idle import IdleWatchdog
from steersman.client.transport.pool import CLOSED, Connections
from steersman.client.transport.wire import Exchange

__all__ = ["Streams"]


class Streams:
    """What is read from the connections of one pool."""

    def __init__(self, pool: Connections) -> None:
        self._pool = pool
        self._watchdogs: set[IdleWatchdog] = set()

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        where: str,
        headers: RequestHeaders,
        body: bytes | None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AsyncGenerator[StreamResponse]:
        """The response, once it has begun; `where` is the path as it is sent, and the query. Raises TransportError."""
        exchange: Exchange | None = None
        until = asyncio.get_running_loop().time() + connect_timeout
        tries = 0
        while exchange is None:
            connection = self._pool.take()
            if connection is None:
                left = until - asyncio.get_running_loop().time()
                connection = await self._pool.connect(f"{method} {path}", left)
            try:
                exchange = await connection.open(method, where, headers, body, until - connection.now())
            except RequestNotSentError:
                tries += 1
                if tries == self._pool.most_tries or connection.now() >= until:
                    raise
        watchdog = IdleWatchdog(idle_timeout, f"{method} {path}")
        self._watchdogs.add(watchdog)
        try:
            yield StreamResponse(exchange.status, exchange.headers, _Chunks(exchange, watchdog))
        finally:
            self._watchdogs.discard(watchdog)
            watchdog.stop()
            exchange.finish()

    def close(self) -> None:
        """Whoever reads gets an error."""
        for watchdog in self._watchdogs:
            watchdog.fail(TransportError(CLOSED))


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

    async def pour(self, take: Take) -> bool:
        watchdog, now = self._watchdog, self._watchdog.now

        def heard(chunk: bytes) -> bool:
            watchdog.since = now()
            return take(chunk)

        return await watchdog.read(lambda: self._exchange.pour(heard))
