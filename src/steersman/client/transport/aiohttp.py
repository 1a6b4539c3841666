"""The second transport: aiohttp on Python's own TLS. It does the web sockets, and checks the first one.

It trusts exactly the CA that the configuration names, and can verify another server name behind a proxy, which
the default cannot. It costs two to three times the CPU per request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from io import BytesIO
from typing import Any, cast

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import ConnectError, ConnectionLost, TransportError, TransportTimeout, UpgradeRefused
from steersman.client.transport.base import Query, RequestHeaders, Response, StreamResponse, WebSocket, target
from steersman.client.transport.explaining import explained
from steersman.client.transport.idle import IdleWatchdog

__all__ = ["AiohttpTransport"]

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 75.0
_PING_SECONDS = 30.0
_LONGEST_MESSAGE = 64 << 20
_READ_BUFFER = 1 << 18
_LONGEST_HEADER = 1 << 16
_LARGE = 1 << 19
_REMEMBERED = 64
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
    """HTTP/1.1 with kept-alive connections over Python's `ssl`, and web sockets.

    Connections are built anew when the client certificate rotates; those in use finish first.
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
        return URL(self._config.server + target(path, query), encoded=True)

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
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
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
        limit = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        request = self._current().request(
            method, self._url(path, query), data=_payload(body), timeout=limit, **self._arguments(headers)
        )
        return self._stream(request, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, request: Any, what: str, connect_timeout: float, idle_timeout: float
    ) -> AsyncGenerator[StreamResponse]:
        try:
            async with asyncio.timeout(connect_timeout):
                response: aiohttp.ClientResponse = await request
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise _translate(problem, what, connect_timeout) from None
        watchdog = IdleWatchdog(idle_timeout, what)
        self._open.add(watchdog)
        try:
            yield StreamResponse(
                response.status, _AiohttpHeaders(response.headers), _Chunks(response.content, watchdog, what)
            )
        finally:
            self._open.discard(watchdog)
            watchdog.stop()
            _abort(_connection_of(response))
            response.close()

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        arguments = self._arguments(headers)
        del arguments["allow_redirects"], arguments["server_hostname"]
        if self._config.tls.server_name:
            raise TransportError(
                "web sockets do not work with tls-server-name: use a host name that is in the certificate"
            )
        what = f"GET {path} (web socket)"
        try:
            async with asyncio.timeout(timeout):
                connect: Any = self._current().ws_connect
                socket = await connect(
                    self._url(path, query),
                    protocols=protocols,
                    max_msg_size=_LONGEST_MESSAGE,
                    heartbeat=_PING_SECONDS,
                    **arguments,
                )
        except aiohttp.WSServerHandshakeError as refused:
            raise UpgradeRefused(
                f"{what}: the server answered {refused.status} instead of opening a web socket", refused.status
            ) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise _translate(problem, what, timeout) from None
        return _WebSocket(socket, what)

    async def close(self) -> None:
        self._closed = True
        for watchdog in self._open:
            watchdog.fail(TransportError("the client is closed"))
        sessions = [*self._retired, *([self._session] if self._session else [])]
        self._session = None
        self._retired.clear()
        # Whoever still writes a body that the server has refused is cancelled, and closes its connection only then.
        await asyncio.sleep(0)
        for session in sessions:
            if (connector := session.connector) is not None:
                # An orderly TLS shutdown would outlive this call, and perhaps the event loop.
                await connector.close(abort_ssl=True)
                cast("_Connector", connector).abort()
            await session.close()
        await asyncio.sleep(0)  # lets the sockets notice


class _Connector(aiohttp.TCPConnector):
    """Remembers its latest connections: aiohttp forgets those that are being closed, which may take long."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._latest: deque[asyncio.Transport] = deque(maxlen=_REMEMBERED)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None and transport not in self._latest:
            self._latest.append(transport)
        return connection

    def abort(self) -> None:
        """End what is still open at once."""
        for transport in self._latest:
            _abort(transport)
        self._latest.clear()


def _connection_of(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    return response.connection.transport if response.connection is not None else None


def _abort(connection: asyncio.Transport | None) -> None:
    """End a connection that will not be used again, at once.

    An orderly TLS shutdown would wait for a peer that goes on talking, and outlive the session and perhaps the loop.
    """
    if connection is not None:
        with suppress(AttributeError):  # asyncio's TLS transport, when it is gone already (until CPython 3.11.3)
            connection.abort()


class _Chunks:
    __slots__ = ("_content", "_watchdog", "_what")

    def __init__(self, content: aiohttp.StreamReader, watchdog: IdleWatchdog, what: str) -> None:
        self._content = content
        self._watchdog = watchdog
        self._what = what

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._watchdog.read(self._content.readany)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise _translate(problem, self._what, 0) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


class _WebSocket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, what: str) -> None:
        self._socket = socket
        self._what = what

    @property
    def protocol(self) -> str:
        return self._socket.protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (aiohttp.ClientError, OSError) as problem:
            raise ConnectionLost(f"{self._what}: the connection broke: {problem}") from None

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
                raise ConnectionLost(f"{self._what}: closed with code {self._socket.close_code}")
            case _:
                raise ConnectionLost(f"{self._what}: the connection broke: {self._socket.exception()}")

    async def close(self) -> None:
        await self._socket.close()


def _payload(body: bytes | None) -> bytes | BytesIO | None:
    """aiohttp warns of bytes over 1 MB, because writing them at once holds up the loop; a file it writes in pieces."""
    return BytesIO(body) if body is not None and len(body) > _LARGE else body


def _build(config: Config, certificate: ClientCertificate | None) -> aiohttp.ClientSession:
    tls = ssl_context(config.tls, certificate) if config.server.startswith("https") else True
    connector = _Connector(limit=0, keepalive_timeout=_IDLE_SECONDS, ssl=tls)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept-Encoding", "User-Agent"),
        read_bufsize=_READ_BUFFER,
        max_line_size=_LONGEST_HEADER,
        max_field_size=_LONGEST_HEADER,
    )


def _translate(problem: Exception, what: str, timeout: float) -> TransportError:
    if isinstance(problem, TransportError):
        return problem
    if isinstance(
        problem, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientProxyConnectionError
    ):
        return ConnectError(f"{what}: cannot connect: {explained(problem)}")
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return ConnectError(f"{what}: the proxy refused with status {problem.status}")
    if isinstance(problem, TimeoutError):
        return TransportTimeout(f"{what}: no answer within {timeout:g} s")
    if isinstance(problem, RuntimeError):
        return TransportError(f"{what}: the client is closed")
    return ConnectionLost(f"{what}: the connection broke: {explained(problem)}")
