"""The transport that uses aiohttp with Python's TLS. It opens the WebSockets of all other transports.

It trusts only the certificate authorities that the configuration names, and it can verify another server name behind a
proxy, which pyreqwest cannot. It needs two to three times the CPU time of the native transport per request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from io import BytesIO
from typing import Any

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import (
    ConnectError,
    ConnectionLostError,
    TransportError,
    TransportTimeoutError,
    UpgradeRefusedError,
)
from steersman.client.transport.base import Query, RequestHeaders, Response, StreamResponse, WebSocket, request_target
from steersman.client.transport.connect_hints import with_hint
from steersman.client.transport.idle_watchdog import IdleWatchdog

__all__ = ["AiohttpTransport"]

_CONNECT_TIMEOUT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 75.0
_PING_INTERVAL_SECONDS = 30.0
_MAX_MESSAGE_BYTES = 64 << 20
_READ_BUFFER_BYTES = 1 << 18
_MAX_HEADER_BYTES = 1 << 16
_MAX_BYTES_IN_ONE_WRITE = 1 << 19
_MAX_TRACKED_CONNECTIONS = 64
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientProxyConnectionError)


class _AiohttpHeaders:
    __slots__ = ("_map",)

    def __init__(self, headers: CIMultiDictProxy[str]) -> None:
        self._map = headers

    def get(self, name: str) -> str | None:
        return self._map.get(name)

    def get_all(self, name: str) -> Sequence[str]:
        return self._map.getall(name, ())

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._map)}>"


class AiohttpTransport:
    """HTTP/1.1 with persistent connections over Python's `ssl` module, and WebSockets.

    New connections are opened after the client certificate rotates. Connections in use close when their requests end.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._certificate: ClientCertificate | None = None
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._open: set[IdleWatchdog] = set()
        self._closed = False

    def _current(self) -> aiohttp.ClientSession:
        certificate = self._config.auth.client_certificate()
        if self._session is None or certificate is not self._certificate:
            if self._closed:
                raise TransportError("the client is closed")
            if self._session is not None:
                self._retired.append(self._session)
            self._session = _build(self._config, certificate)
            self._certificate = certificate
        return self._session

    def _arguments(self, headers: RequestHeaders) -> dict[str, Any]:
        return {
            "headers": CIMultiDict(headers),
            "allow_redirects": False,
            "proxy": self._config.proxy,
            "server_hostname": self._config.tls.server_name,
        }

    def _url(self, path: str, query: Query) -> URL:
        return URL(self._config.server + request_target(path, query), encoded=True)

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
        """Send one request; see `Transport.request`."""
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_TIMEOUT_SECONDS)
        connection: asyncio.Transport | None = None
        try:
            async with self._current().request(
                method, self._url(path, query), data=_payload(body), timeout=limit, **self._arguments(headers)
            ) as response:
                connection = _connection_of(response)
                data = await response.read()
                if "Connection" not in response.headers:  # kept alive
                    connection = None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise _translate(problem, f"{method} {path}", timeout) from None
        finally:
            _abort(connection)
        return Response(response.status, _AiohttpHeaders(response.headers), data)

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
        limit = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_SECONDS)
        request = self._current().request(
            method, self._url(path, query), data=_payload(body), timeout=limit, **self._arguments(headers)
        )
        return self._stream(request, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, request: Any, label: str, connect_timeout: float, idle_timeout: float
    ) -> AsyncGenerator[StreamResponse]:
        try:
            async with asyncio.timeout(connect_timeout):
                response: aiohttp.ClientResponse = await request
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise _translate(problem, label, connect_timeout) from None
        watchdog = IdleWatchdog(idle_timeout, label)
        self._open.add(watchdog)
        try:
            yield StreamResponse(
                response.status, _AiohttpHeaders(response.headers), _Chunks(response.content, watchdog, label)
            )
        finally:
            self._open.discard(watchdog)
            watchdog.stop()
            _abort(_connection_of(response))
            response.close()

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        arguments = self._arguments(headers)
        del arguments["allow_redirects"], arguments["server_hostname"]
        if self._config.tls.server_name:
            raise TransportError(
                "WebSockets do not work with tls-server-name: use a host name that is in the certificate"
            )
        label = f"GET {path} (WebSocket)"
        try:
            async with asyncio.timeout(timeout):
                connect: Any = self._current().ws_connect
                socket = await connect(
                    self._url(path, query),
                    protocols=protocols,
                    max_msg_size=_MAX_MESSAGE_BYTES,
                    heartbeat=_PING_INTERVAL_SECONDS,
                    **arguments,
                )
        except aiohttp.WSServerHandshakeError as refused:
            raise UpgradeRefusedError(
                f"{label}: the server responded with status {refused.status} instead of opening a WebSocket",
                refused.status,
            ) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise _translate(problem, label, timeout) from None
        return _WebSocket(socket, label)

    async def close(self) -> None:
        """Close all connections; open streams fail with an error."""
        self._closed = True
        for watchdog in self._open:
            watchdog.fail(TransportError("the client is closed"))
        sessions = [*self._retired, *([self._session] if self._session else [])]
        self._session = None
        self._retired.clear()
        # A task that still writes a refused body closes its connection only after its cancellation.
        await asyncio.sleep(0)
        for session in sessions:
            if isinstance(connector := session.connector, _Connector):
                # An orderly TLS shutdown would last longer than this call, and possibly longer than the event loop.
                await connector.close(abort_ssl=True)
                connector.abort()
            await session.close()
        await asyncio.sleep(0)  # the event loop closes the sockets


class _Connector(aiohttp.TCPConnector):
    """Keeps a list of its latest connections, because aiohttp drops its references to connections that are closing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._latest: deque[asyncio.Transport] = deque(maxlen=_MAX_TRACKED_CONNECTIONS)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None and transport not in self._latest:
            self._latest.append(transport)
        return connection

    def abort(self) -> None:
        """Abort all tracked connections."""
        for transport in self._latest:
            _abort(transport)
        self._latest.clear()


def _connection_of(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    return response.connection.transport if response.connection is not None else None


def _abort(connection: asyncio.Transport | None) -> None:
    """Abort a connection that will not be used again.

    An orderly TLS shutdown would wait for a peer that keeps sending, and last longer than the session or the loop.
    """
    if connection is not None:
        with suppress(AttributeError):  # asyncio's TLS transport when it is already closed (until CPython 3.11.3)
            connection.abort()


class _Chunks:
    __slots__ = ("_content", "_label", "_watchdog")

    def __init__(self, content: aiohttp.StreamReader, watchdog: IdleWatchdog, label: str) -> None:
        self._content = content
        self._watchdog = watchdog
        self._label = label

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._watchdog.read(self._content.readany)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise _translate(problem, self._label, 0) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


class _WebSocket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, label: str) -> None:
        self._socket = socket
        self._label = label

    @property
    def protocol(self) -> str:
        return self._socket.protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (aiohttp.ClientError, OSError) as problem:
            raise ConnectionLostError(f"{self._label}: the connection broke: {problem}") from None

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        match message.type:
            case aiohttp.WSMsgType.BINARY:
                return message.data
            case aiohttp.WSMsgType.TEXT:
                return message.data.encode()
            case aiohttp.WSMsgType.CLOSE | aiohttp.WSMsgType.CLOSING | aiohttp.WSMsgType.CLOSED:
                if self._socket.close_code in (aiohttp.WSCloseCode.OK, aiohttp.WSCloseCode.GOING_AWAY):
                    return None
                raise ConnectionLostError(f"{self._label}: closed with code {self._socket.close_code}")
            case _:
                raise ConnectionLostError(f"{self._label}: the connection broke: {self._socket.exception()}")

    async def close(self) -> None:
        await self._socket.close()


def _payload(body: bytes | None) -> bytes | BytesIO | None:
    """Return a body for aiohttp, which writes bytes at once and so blocks the loop, but a file in parts."""
    return BytesIO(body) if body is not None and len(body) > _MAX_BYTES_IN_ONE_WRITE else body


def _build(config: Config, certificate: ClientCertificate | None) -> aiohttp.ClientSession:
    tls = ssl_context(config.tls, certificate) if config.server.startswith("https") else True
    connector = _Connector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=tls)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept-Encoding", "User-Agent"),
        read_bufsize=_READ_BUFFER_BYTES,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


def _translate(problem: Exception, label: str, timeout: float) -> TransportError:
    if isinstance(problem, TransportError):
        return problem
    if isinstance(
        problem, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientProxyConnectionError
    ):
        return ConnectError(f"{label}: cannot connect: {with_hint(problem)}")
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return ConnectError(f"{label}: the proxy refused with status {problem.status}")
    if isinstance(problem, TimeoutError):
        return TransportTimeoutError(f"{label}: no answer within {timeout:g} s")
    if isinstance(problem, RuntimeError):
        return TransportError(f"{label}: the client is closed")
    return ConnectionLostError(f"{label}: the connection broke: {with_hint(problem)}")
