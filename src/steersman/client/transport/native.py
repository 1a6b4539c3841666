"""The default transport: HTTP/2, or HTTP/1.1 with servers that do not support it, on the event loop itself.

No library reaches the required rates of events and updates: libraries with a thread of their own need two thread
switches per response, and parsers in Python need ten times the CPU time. Here a response is one callback of the event
loop, and the bytes of a watch are passed on as they arrive. `pool` has the connections, `http1` and `http2` have the
protocols. See docs/decisions.

It does not support proxies and WebSockets (other transports do), redirects, retries or decompression.
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
    request_target,
)
from steersman.client.transport.connection import Connection
from steersman.client.transport.http2 import RequestNotSentError
from steersman.client.transport.pool import ConnectionPool
from steersman.client.transport.response_streams import ResponseStreams
from steersman.client.transport.websockets import websocket_transport
from steersman.models.memo import Memo

__all__ = ["NativeTransport", "can_use_native"]


def can_use_native(config: Config) -> bool:
    """Return False if the configuration has a proxy, which this transport does not support."""
    return config.proxy is None


class NativeTransport:
    """HTTP over TCP or TLS on the running event loop. It trusts only the configured CA.

    A `Client` uses it for the API server. An operator can use it for another HTTP server, such as those of its Pods;
    then each request needs its own headers, and a response with an error status is returned:
        transport = NativeTransport(Config("https://db-0.shop.svc:8443", TlsConfig(ca_pem=authority)))
        response = await transport.request("GET", "/v1/state", headers={"Authorization": bearer}, timeout=1)

    With HTTP/2 (over TLS, unless `http2=False`) one connection carries as many requests and watches as the server
    allows. Idle connections are closed after 60 s. New connections are opened after the client certificate rotates;
    connections in use close when their requests end. The number of connections has no limit, because the client limits
    its requests. WebSockets use `AiohttpTransport`.
    """

    def __init__(self, config: Config, *, http2: bool = True) -> None:
        if not can_use_native(config):
            raise TransportError(f"NativeTransport does not support proxies, and {config.server} has one")
        self._config = config
        self._prefix = urlsplit(config.server).path.rstrip("/")
        self._pool = ConnectionPool(config, http2=http2)
        self._take = self._pool.take
        self._streams = ResponseStreams(self._pool)
        self._encoded_queries = Memo[Any, str](
            partial(request_target, ""), 64
        )  # each page of a list has a query of its own
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
        """Send one request; see `Transport.request`."""
        where = self._where(method, path, query)
        until, tries = 0.0, 0
        while True:
            connection = self._take()
            if connection is None:
                connection, timeout = await self._connect(method, path, timeout)
            until = until or connection.now() + timeout
            response = connection.send_request(method, where, headers, body, timeout)
            try:
                return await response
            except asyncio.CancelledError:
                connection.cancel_request(response)
                raise
            except RequestNotSentError:
                timeout = until - connection.now()
                tries += 1
                if tries == self._pool.max_attempts or timeout <= 0:
                    raise

    async def _connect(self, method: str, path: str, timeout: float) -> tuple[Connection, float]:
        """Return a new connection and the rest of the timeout in seconds."""
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
        """Open a stream; see `Transport.stream`."""
        where = self._where(method, path, query)
        return self._streams.open(method, path, where, headers, body, connect_timeout, idle_timeout)

    async def websocket(
        self, path: str, *, protocols: Sequence[str], timeout: float, query: Query = (), headers: RequestHeaders = ()
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        if self._sockets is None:
            self._sockets = websocket_transport(self._config)
        return await self._sockets.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        """Close all connections; open streams fail with an error."""
        self._streams.close()
        await self._pool.close()
        if self._sockets is not None:
            await self._sockets.close()

    # Helpers.

    def _where(self, method: str, path: str, query: Query) -> str:
        where = self._prefix + path
        if not where.isascii() or not where.isprintable() or " " in where:
            raise TransportError(f"{method} {path!r}: the path must be percent-encoded")
        if not query:
            return where
        # Nearly all requests of a process have one of a few queries.
        pairs = query if isinstance(query, tuple) else tuple(query.items() if isinstance(query, Mapping) else query)
        return where + self._encoded_queries[pairs]
