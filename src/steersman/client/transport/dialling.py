"""How connections of the native transport are made: connect, shake hands, and speak what both do.

The answer of ALPN (RFC 7301) chooses the protocol: HTTP/2 where the server speaks it, HTTP/1.1 everywhere else. The TLS
settings are read once for each client certificate. What fails is a `ConnectError`: nothing has been sent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import ConnectError, TransportError
from steersman.client.transport.explaining import explained
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Wire, inbox

__all__ = ["Dialler"]

Make = Callable[[asyncio.Transport, TlsLayer | None], Wire]
"""Makes the connection once it is known what the server speaks."""


async def _dial(host: str, port: int, tls: TlsLayer | None, make: Make) -> Wire:
    """Connect and shake hands. Raises OSError (ssl.SSLError is one) and ValueError for what either fails of."""
    loop = asyncio.get_running_loop()
    transport, greeting = await loop.create_connection(lambda: _Greeting(tls, make), host, port)
    try:
        return await greeting.done
    except BaseException:
        transport.abort()
        raise


_EARLY: Final = "the server closed the connection during the handshake"


class _Greeting(asyncio.BufferedProtocol):
    """Owns the socket until it is known what is spoken on it."""

    def __init__(self, tls: TlsLayer | None, make: Make) -> None:
        self._inbox = inbox()
        self._tls = tls
        self._make = make
        self._transport: Any = None
        self.done: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._tls is None:
            self._finish()
        else:
            self._shake(self._tls, b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        if self._tls is not None and not self.done.done():
            self._shake(self._tls, self._inbox[:nbytes])

    def _shake(self, tls: TlsLayer, data: bytes | memoryview) -> None:
        try:
            shaken = tls.shake(data)
        except (ssl.SSLError, ValueError) as problem:
            shaken = False
            if not self.done.done():
                self.done.set_exception(problem)
        if records := tls.to_send():
            self._transport.write(records)
        if shaken:
            self._finish()

    def _finish(self) -> None:
        wire = self._make(self._transport, self._tls)
        # From here on, also what came together with the end of the handshake is the protocol's.
        self._transport.set_protocol(_Plug(wire))
        if self.done.done():  # given up meanwhile
            return
        self.done.set_result(wire)
        wire.begin()
        if self._tls is not None:
            wire.buffer_updated(0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError(_EARLY))


class _Plug(asyncio.BufferedProtocol):
    """What the loop takes for its protocol. What it calls are the connection's own methods, with nothing between."""

    def __init__(self, wire: Wire) -> None:
        self.get_buffer = wire.get_buffer
        self.buffer_updated = wire.buffer_updated
        self.connection_lost = wire.connection_lost


class Dialler:
    """Makes connections to one server. `presents` says which certificate the next ones show."""

    def __init__(self, config: Config, *, http2: bool) -> None:
        parts = urlsplit(config.server)
        self._config = config
        self.tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self.tls else 80)
        self._http2 = http2
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None

    def presents(self, certificate: ClientCertificate | None) -> None:
        """Show this certificate from now on."""
        self._certificate = certificate
        self._context = None

    async def dial(self, make: Make, limit: float) -> Wire:
        """A new connection, made within `limit` seconds. Raises ConnectError; TransportError for unusable settings."""
        try:
            context = self._tls_context() if self.tls else None
        except (ssl.SSLError, ValueError) as problem:
            # The message may quote the PEM: only say which of our inputs was refused.
            raise TransportError(
                f"{self._config.server}: the TLS settings cannot be used ({type(problem).__name__}): check that the CA,"
                " the client certificate and its key are PEM and belong together"
            ) from None
        try:
            async with asyncio.timeout(limit):
                tls = None if context is None else TlsLayer(context, self._config.tls.server_name or self._host)
                return await _dial(self._host, self._port, tls, make)
        except TimeoutError:
            raise ConnectError(f"cannot connect: no answer within {limit:g} s") from None
        except (OSError, ValueError) as problem:
            raise ConnectError(f"cannot connect: {explained(problem)}") from None

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl_context(self._config.tls, self._certificate)
            if self._http2:
                self._context.set_alpn_protocols(["h2", "http/1.1"])
        return self._context
