"""Responses of the native transport that are read in pieces: watches and logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from steersman.client.errors import TransportError
from steersman.client.transport.base import ChunkConsumer, RequestHeaders, StreamResponse
from steersman.client.transport.connection import Exchange
from steersman.client.transport.http2 import RequestNotSentError
from steersman.client.transport.idle_watchdog import IdleWatchdog
from steersman.client.transport.pool import CLOSED, ConnectionPool

__all__ = ["ResponseStreams"]


class ResponseStreams:
    """The open response streams on the connections of one pool."""

    def __init__(self, pool: ConnectionPool) -> None:
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
        """Open a stream after the response headers have arrived. Raises TransportError.

        Args:
            method: The HTTP method.
            path: The path for error messages.
            where: The request target: the path and the query as they are sent.
            headers: The request headers.
            body: The request body.
            connect_timeout: Seconds until the response headers must have arrived.
            idle_timeout: Seconds without data after which the stream fails.
        """
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
                if tries == self._pool.max_attempts or connection.now() >= until:
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
        """Fail all open streams."""
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

    async def deliver(self, take: ChunkConsumer) -> bool:
        """Pass each chunk to `take`; see `base.deliver`."""
        watchdog, now = self._watchdog, self._watchdog.now

        def last_received(chunk: bytes) -> bool:
            watchdog.since = now()
            return take(chunk)

        return await watchdog.read(lambda: self._exchange.deliver(last_received))
