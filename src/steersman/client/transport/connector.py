"""Opens the connections of the native transport: TCP, the TLS handshake, and the choice of the HTTP version.

ALPN (RFC 7301) selects HTTP/2 if the server supports it, and HTTP/1.1 otherwise. The TLS settings are read once for
each client certificate. Failures raise `ConnectError`, because no request has been sent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.connect_hints import with_hint
from steersman.client.transport.connection import Connection, receive_buffer
from steersman.client.transport.tls import TlsLayer

__all__ = ["Connector"]

ConnectionFactory = Callable[[asyncio.Transport, TlsLayer | None], Connection]
"""Creates the connection for the protocol that ALPN selected."""

TlsFactory = Callable[[], TlsLayer]
"""Creates the TLS of a connection, of about 50 KB: only when the server has accepted the TCP connection."""


async def _connect(host: str, port: int, tls: TlsFactory | None, make: ConnectionFactory) -> Connection:
    """Connect and complete the TLS handshake. Raises OSError (`ssl.SSLError` is one) and ValueError."""
    loop = asyncio.get_running_loop()
    transport, handshake = await loop.create_connection(lambda: _HandshakeProtocol(tls, make), host, port)
    try:
        return await handshake.done
    except BaseException:
        transport.abort()
        raise
    finally:
        # The exception of the future refers to this frame, which the garbage collector would have to find.
        del handshake


_CLOSED_EARLY: Final = "the server closed the connection during the handshake"


class _HandshakeProtocol(asyncio.BufferedProtocol):
    """Owns the socket until the TLS handshake has selected the protocol."""

    def __init__(self, make_tls: TlsFactory | None, make: ConnectionFactory) -> None:
        self._receive_buffer = receive_buffer()
        self._make_tls = make_tls
        self._tls: TlsLayer | None = None
        self._make = make
        self._transport: Any = None
        self.done: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._make_tls is None:
            self._finish()
            return
        try:
            self._tls = self._make_tls()
        except ValueError as problem:  # the host name of the server is not valid
            self.done.set_exception(problem.with_traceback(None))
        else:
            self._continue_handshake(self._tls, b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._tls is not None and not self.done.done():
            self._continue_handshake(self._tls, self._receive_buffer[:nbytes])

    def _continue_handshake(self, tls: TlsLayer, data: bytes | memoryview) -> None:
        try:
            handshake_done = tls.handshake(data)
        except (ssl.SSLError, ValueError) as problem:
            handshake_done = False
            if not self.done.done():
                self.done.set_exception(problem.with_traceback(None))  # its frames refer to this object
        if records := tls.to_send():
            self._transport.write(records)
        if handshake_done:
            self._finish()

    def _finish(self) -> None:
        connection = self._make(self._transport, self._tls)
        # Bytes that arrived together with the end of the handshake belong to the new connection.
        self._transport.set_protocol(_ConnectionProtocol(connection))
        if self.done.done():  # the caller was cancelled
            return
        self.done.set_result(connection)
        connection.begin()
        if self._tls is not None:
            connection.buffer_updated(0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError(_CLOSED_EARLY))


class _ConnectionProtocol(asyncio.BufferedProtocol):
    """The protocol object of the event loop. Its methods are the connection's own methods, to save a call per event."""

    def __init__(self, connection: Connection) -> None:
        self.get_buffer = connection.get_buffer
        self.buffer_updated = connection.buffer_updated
        self.connection_lost = connection.connection_lost


class Connector:
    """Opens connections to one server. `use_certificate` sets the client certificate of the next connections."""

    def __init__(self, config: Config, *, http2: bool) -> None:
        parts = urlsplit(config.server)
        self._config = config
        self.tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self.tls else 80)
        self._server_name = config.tls.server_name or self._host
        self._http2 = http2
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None

    def use_certificate(self, certificate: ClientCertificate | None) -> None:
        """Use this client certificate for new connections."""
        self._certificate = certificate
        self._context = None

    async def connect(self, make: ConnectionFactory, limit: float) -> Connection:
        """Open a connection within `limit` seconds. Raises ConnectError, or TransportError for invalid TLS settings."""
        try:
            context = self._tls_context() if self.tls else None
        except (ssl.SSLError, ValueError) as problem:
            # The message of the exception may quote the PEM, so the error names only the settings.
            raise TransportError(
                f"{self._config.server}: the TLS settings cannot be used ({type(problem).__name__}): check that the CA,"
                " the client certificate and its key are PEM and belong together"
            ) from None
        try:
            async with asyncio.timeout(limit):
                tls = None if context is None else partial(TlsLayer, context, self._server_name)
                return await _connect(self._host, self._port, tls, make)
        except TimeoutError:
            raise ConnectError(f"cannot connect: no response within {limit:g} s") from None
        except (OSError, ValueError) as problem:
            raise ConnectError(f"cannot connect: {with_hint(problem)}") from None

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl_context(self._config.tls, self._certificate)
            if self._http2:
                self._context.set_alpn_protocols(["h2", "http/1.1"])
        return self._context
