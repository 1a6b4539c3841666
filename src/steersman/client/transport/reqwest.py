"""The transport for proxies: pyreqwest, which runs hyper and rustls in a thread of its own.

It needs the least CPU time per request among the maintained libraries, but in a running operator its thread and the
event loop's thread pass the interpreter lock back and forth, which costs more than the request. Three properties of
the library are corrected here: its exceptions report connections that broke after the request was sent as connect
errors, so failures are distinguished by their causes; it buffers streams by default; and a cancelled call can return a
result.

A private CA is trusted in addition to the system's CAs, because the library cannot exclude those.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from pyreqwest.client import Client as ReqwestClient
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import ClientClosedError, DetailedPyreqwestError, PyreqwestError, RequestTimeoutError
from pyreqwest.http import HeaderMap
from pyreqwest.proxy import ProxyBuilder
from pyreqwest.request import RequestBuilder

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import holds_leaf_certificate
from steersman.client.errors import ConnectError, ConnectionLostError, TransportError, TransportTimeoutError
from steersman.client.transport.base import (
    Query,
    RequestHeaders,
    Response,
    StreamResponse,
    Transport,
    UnsupportedTransport,
    WebSocket,
    request_target,
)
from steersman.client.transport.connect_hints import with_hint
from steersman.client.transport.idle_watchdog import IdleWatchdog
from steersman.client.transport.websockets import websocket_transport

__all__ = ["PyreqwestTransport", "can_use_pyreqwest"]

_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 15.0
_TCP_USER_TIMEOUT_SECONDS = 45.0
_IDLE_SECONDS = 75.0


class _ReqwestHeaders:
    __slots__ = ("_map",)

    def __init__(self, headers: HeaderMap) -> None:
        self._map = headers

    def get(self, name: str) -> str | None:
        return self._map.get(name)

    def get_all(self, name: str) -> Sequence[str]:
        return self._map.getall(name)

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._map)}>"


def can_use_pyreqwest(config: Config) -> bool:
    """Return False if only `AiohttpTransport` supports the configuration.

    pyreqwest can verify a name other than the URL's host only by resolving that name to the host's address, so
    `tls-server-name` needs an IP address as host and no proxy. Its TLS library trusts certificate authorities only,
    never a server certificate in `certificate-authority`.
    """
    if config.tls.ca_pem is not None and not config.tls.insecure and holds_leaf_certificate(config.tls.ca_pem):
        return False
    if not config.tls.server_name or not config.server.startswith("https"):
        return True
    return config.proxy is None and _literal_address(config.server) is not None


def _literal_address(server: str) -> str | None:
    host = urlsplit(server).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return None
    return host


class PyreqwestTransport(UnsupportedTransport):
    """HTTP/1.1 with persistent connections, or HTTP/2 with `http2=True`, over rustls.

    New connections are opened after the client certificate rotates. TCP keep-alive detects half-open connections within
    60 s. WebSockets use an `AiohttpTransport`, which is created for the first WebSocket.
    """

    def __init__(self, config: Config, *, http2: bool = False) -> None:
        self._config = config
        self._http2 = http2
        self._certificate: ClientCertificate | None = None
        self._client: ReqwestClient | None = None
        self._sockets: Transport | None = None
        self._open: set[IdleWatchdog] = set()
        self._closed = False
        self._base = _base_url(config)

    def _current(self) -> ReqwestClient:
        certificate = self._config.auth.client_certificate()
        if self._client is None or certificate is not self._certificate:
            if self._closed:
                raise TransportError("the client is closed")
            # Running requests hold the old client, and its connections close after the last of them.
            self._client = _build(self._config, certificate, http2=self._http2)
            self._certificate = certificate
        return self._client

    def _prepare(
        self, method: str, path: str, query: Query, headers: RequestHeaders, body: bytes | None
    ) -> RequestBuilder:
        builder = self._current().request(method, self._base + request_target(path, query)).headers(headers)
        return builder if body is None else builder.body_bytes(body)

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
        builder = self._prepare(method, path, query, headers, body).timeout(timedelta(seconds=timeout))
        cancelling = _cancelling()
        try:
            response = await builder.build().send()
            data = await response.bytes()
        except PyreqwestError as problem:
            raise _translate(problem, f"{method} {path}", timeout) from None
        _raise_if_cancelled(cancelling)
        return Response(response.status, _ReqwestHeaders(response.headers), data.to_bytes())

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
        request = self._prepare(method, path, query, headers, body).streamed_read_buffer_limit(0).build_streamed()
        return self._stream(request, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, request: Any, label: str, connect_timeout: float, idle_timeout: float
    ) -> AsyncGenerator[StreamResponse]:
        cancelling = _cancelling()
        try:
            async with asyncio.timeout(connect_timeout):
                response = await request.__aenter__()
                _raise_if_cancelled(cancelling)
        except PyreqwestError as problem:
            raise _translate(problem, label, connect_timeout) from None
        except TimeoutError:
            raise TransportTimeoutError(f"{label}: no response within {connect_timeout:g} s") from None
        watchdog = IdleWatchdog(idle_timeout, label)
        self._open.add(watchdog)
        try:
            yield StreamResponse(
                response.status,
                _ReqwestHeaders(response.headers),
                _Chunks(response.body_reader.read_chunk, watchdog, label),
            )
        finally:
            self._open.discard(watchdog)
            watchdog.stop()
            await request.__aexit__(None, None, None)

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        if self._sockets is None:
            self._sockets = websocket_transport(self._config)
        return await self._sockets.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        """Close all connections; open streams fail with an error."""
        self._closed = True
        for watchdog in self._open:
            watchdog.fail(TransportError("the client is closed"))
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if self._sockets is not None:
            await self._sockets.close()


def _cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _raise_if_cancelled(before: int) -> None:
    """Raise a cancellation that the library has replaced by its result."""
    if _cancelling() > before:
        raise asyncio.CancelledError


class _Chunks:
    __slots__ = ("_label", "_read", "_watchdog")

    def __init__(self, read: Any, watchdog: IdleWatchdog, label: str) -> None:
        self._read = read
        self._watchdog = watchdog
        self._label = label

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._watchdog.read(self._read)
        except PyreqwestError as problem:
            raise _translate(problem, self._label, 0) from None
        if chunk is None:
            raise StopAsyncIteration
        return chunk.to_bytes()


def _base_url(config: Config) -> str:
    name = config.tls.server_name
    if not name or not config.server.startswith("https"):
        return config.server
    parts = urlsplit(config.server)
    return f"https://{name}:{parts.port or 443}{parts.path}"


def _build(config: Config, certificate: ClientCertificate | None, *, http2: bool) -> ReqwestClient:
    builder = (
        ClientBuilder()
        .follow_redirects(False)
        .referer(False)
        .gzip(False)
        .brotli(False)
        .zstd(False)
        .deflate(False)
        .connect_timeout(timedelta(seconds=_CONNECT_SECONDS))
        .pool_idle_timeout(timedelta(seconds=_IDLE_SECONDS))
        .tcp_keepalive(timedelta(seconds=_KEEPALIVE_SECONDS))
        .tcp_keepalive_interval(timedelta(seconds=_KEEPALIVE_SECONDS))
        .tcp_keepalive_retries(3)
        .tcp_user_timeout(timedelta(seconds=_TCP_USER_TIMEOUT_SECONDS))
    )
    builder = builder.no_proxy() if config.proxy is None else builder.proxy(ProxyBuilder.all(config.proxy))
    if http2:
        builder = builder.http2(True).http2_adaptive_window(True)
        builder = builder.http2_keep_alive_interval(timedelta(seconds=_KEEPALIVE_SECONDS))
        builder = builder.http2_keep_alive_timeout(timedelta(seconds=_KEEPALIVE_SECONDS))
    if config.server.startswith("https"):
        builder = _with_tls(builder, config, certificate)
    try:
        return builder.build()
    except (PyreqwestError, ValueError) as problem:
        # The library's message may quote the PEM, so the error names only the settings.
        raise TransportError(
            f"{config.server}: the TLS settings cannot be used ({type(problem).__name__}): check that the CA, the "
            "client certificate and its key are PEM and belong together"
        ) from None


def _with_tls(builder: ClientBuilder, config: Config, certificate: ClientCertificate | None) -> ClientBuilder:
    tls = config.tls
    if tls.insecure:
        builder = builder.danger_accept_invalid_certs(True)
    elif tls.ca_pem is not None:
        for pem in _certificates(tls.ca_pem):
            builder = builder.add_root_certificate_pem(pem)
    if certificate is not None:
        key = certificate.key_pem if certificate.key_pem.endswith(b"\n") else certificate.key_pem + b"\n"
        builder = builder.identity_pem(key + certificate.cert_pem)
    if tls.server_name:
        parts = urlsplit(config.server)
        address = _literal_address(config.server)
        if address is None:
            raise TransportError(f"tls-server-name with the host name {parts.hostname!r} needs AiohttpTransport")
        builder = builder.resolve(tls.server_name, address, parts.port or 443)
    return builder


_END = b"-----END CERTIFICATE-----"


def _certificates(bundle: bytes) -> list[bytes]:
    """Split a bundle into single certificates, because the library reads one per call."""
    return [part + _END + b"\n" for part in bundle.split(_END) if b"-----BEGIN CERTIFICATE-----" in part]


def _translate(problem: PyreqwestError, label: str, timeout: float) -> TransportError:
    causes = (problem.details.get("causes") if isinstance(problem, DetailedPyreqwestError) else None) or []
    said = [cause["message"] for cause in causes]
    reason = said[-1] if said else problem.message
    if any("(Connect)" in message for message in said):
        text = ": ".join(message for message in said if not message.startswith(("error sending", "client error")))
        return ConnectError(f"{label}: cannot connect: {with_hint(text)}")
    if isinstance(problem, RequestTimeoutError):
        return TransportTimeoutError(f"{label}: no response within {timeout:g} s")
    if isinstance(problem, ClientClosedError):
        return TransportError(f"{label}: the client is closed")
    return ConnectionLostError(f"{label}: the connection broke: {reason}")
