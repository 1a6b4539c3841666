"""The webhook server's HTTP/1.1 on the event loop of the handlers.

The API server uses few connections and expects responses within milliseconds, so a request needs one pass of httptools
(llhttp) and one task wake-up. Requests of a connection are processed in order. A malformed, too long or too slow
request gets an error response or is closed; it does not reach a handler. The module does not depend on reviews.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import httptools
import msgspec

from steersman.listener import ConnectionLimits, Listener
from steersman.telemetry.log import get_logger
from steersman.webhook.http_messages import Route, WebhookRequest, WebhookResponse

__all__ = ["Certificates", "Limits", "WebhookServer"]

log = get_logger("webhook")

_LINGER_SECONDS: Final = 1.0
"""During shutdown, the time for which new connections are accepted, and again the time for idle connections."""
_TLS_SHUTDOWN_SECONDS: Final = 5.0
"""The time for which a client may delay the end of TLS."""


class Limits(msgspec.Struct, frozen=True):
    """Limits on requests and connections, in seconds and bytes."""

    body: int = 10 * 1024 * 1024
    """An object may have 3 MB, and an update contains two."""
    head: int = 64 * 1024
    handshake_seconds: float = 10.0
    request_seconds: float = 30.0
    """From the first byte of a request to its last byte."""
    first_request_seconds: float = 10.0
    """From the TLS handshake to the first byte: the API server connects when it has a request."""
    idle_seconds: float = 180.0
    """Between two requests of a connection; Go clients keep connections for 90 s."""
    connections: int = 1000
    """At the limit, the connection that has been idle for longest is closed for a new one."""
    handshakes: int = 256
    """TLS handshakes at a time; at the limit, the oldest one is closed for a new one."""
    chunk_overhead: int = 256 * 1024
    """Bytes of chunk headers and trailers beyond 16 for each chunk and one for each byte of the body."""


class Certificates(Protocol):
    """Provides the server's TLS context for each new connection."""

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        ...


class WebhookServer:
    """Serves POST requests on fixed paths over TLS; `start`, then `close`.

    A renewed certificate is used for new connections; open connections continue. `start` raises OSError if the address
    is not available.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        certificates: Certificates,
        *,
        refuse: Callable[[int, str], bytes],
        limits: Limits | None = None,
        client_ca: bytes | None = None,
    ) -> None:
        """Create a server. `client_ca` (PEM) signs the certificates of clients; without it, clients need none."""
        self.routes = routes
        self.refuse = refuse
        """Returns the body of an error response from its code and a sentence."""
        self.limits = limits or Limits()
        self.leaving = self.closing = False
        self._certificates = certificates
        self._client_ca = client_ca
        self._listener: Listener | None = None
        self._connections: set[_Connection] = set()
        self._address: tuple[str, int] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen on an address; port 0 selects a free port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        current = self._certificates.context
        current()  # raises errors of the certificate now
        authority = None if self._client_ca is None else self._client_ca.decode()
        checked_context: ssl.SSLContext | None = None

        def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            nonlocal checked_context
            chosen = current()
            if authority is not None and chosen is not checked_context:
                checked_context = _require_client_certificate(chosen, authority)
            connection.context = chosen

        if authority is not None:
            _require_client_certificate(context, authority)
        context.sni_callback = choose
        limits = ConnectionLimits(
            # `admit` limits open connections.
            connections=self.limits.connections + self.limits.handshakes,
            waiting=self.limits.handshakes,
            handshake_seconds=self.limits.handshake_seconds,
        )
        listener = Listener(context, limits, shutdown_seconds=_TLS_SHUTDOWN_SECONDS)
        await listener.start(lambda: _Connection(self, listener), host, port)
        self._listener = listener
        self._address = listener.address

    @property
    def accepting(self) -> bool:
        """Whether new connections are accepted."""
        return self._listener is not None and self._listener.accepting

    @property
    def handshakes(self) -> int:
        """The number of TLS handshakes in progress."""
        return 0 if self._listener is None else self._listener.waiting

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the server listens, or listened before it was closed."""
        assert self._address is not None, "call start() first"
        return self._address

    async def close(self, grace: float = 5.0, *, asked: bool = True) -> None:
        """Stop accepting connections; requests in progress get `grace` seconds to finish.

        Before that, the server accepts requests for a short time with `Connection: close`. Otherwise a request that was
        just sent on an idle connection, or during a handshake, would fail, and with the failure policy Fail the write
        would be refused. With `asked=False` no API server calls the webhooks any more, and the server closes without
        this delay.
        """
        if self._listener is None:
            return
        linger = min(_LINGER_SECONDS, grace / 3) if asked else 0.0
        self.leaving = True
        for connection in list(self._connections):
            connection.leave(2 * linger)
        await asyncio.sleep(linger)
        self._listener.stop()
        await asyncio.sleep(linger)  # for connections that the kernel has accepted and that are in a handshake
        self.closing = True
        for connection in list(self._connections):
            connection.leave()
        busy = [c.done for c in self._connections]
        if busy:
            await asyncio.wait(busy, timeout=max(0.0, grace - 2 * linger))
        for connection in list(self._connections):
            connection.abort()
        await self._listener.close()

    def admit(self, connection: _Connection) -> bool:
        """Add a new connection; at the limit, close the connection that has been idle for longest.

        Returns False if the server is closing, or if all connections process requests.
        """
        if self.closing:
            return False
        if len(self._connections) >= self.limits.connections:
            idle = min((one for one in self._connections if not one.busy), key=_Connection.idle_order, default=None)
            if idle is None:
                return False
            self._connections.discard(idle)
            idle.abort()
        self._connections.add(connection)
        return True

    def forget(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)

    async def answer(self, request: WebhookRequest) -> WebhookResponse:
        """Call the route of a request; an exception of the route becomes a 500."""
        route = self.routes.get(request.path)
        if route is None:
            return self._refusal(404, f"there is no webhook at {request.path}")
        if request.method != "POST":
            return self._refusal(405, f"webhooks accept POST, not {request.method}")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return self._refusal(415, "the Content-Type must be application/json")
        try:
            return await route(request)
        except Exception:
            log.exception("webhook_route_failed", path=request.path)
            return self._refusal(500, "the webhook failed; the reason is in the operator's log")

    def _refusal(self, code: int, text: str) -> WebhookResponse:
        return WebhookResponse(code, self.refuse(code, text))


class _Connection(asyncio.Protocol):
    """One client connection: parses its requests, and a task processes them in order."""

    def __init__(self, server: WebhookServer, listener: Listener) -> None:
        self._server = server
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._requests: deque[tuple[WebhookRequest, bool] | WebhookResponse] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = self._loop.time()
        self._received = 0
        self._request_started = self._busy = self._refused = self._leaving = self._closing = self._served = False
        self._drained: asyncio.Future[None] | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = self._head = self._chunks = 0
        self._in_body = False

    @property
    def busy(self) -> bool:
        """Whether a request is processed or waits."""
        return self._busy or bool(self._requests)

    def idle_order(self) -> tuple[bool, float]:
        """Return a sort key of idle connections: those without a request first, then by the start of the idle time."""
        return self._served, self._since

    # Callbacks of the event loop.

    def connection_made(self, transport: Any) -> None:
        """Start the connection after the TLS handshake."""
        self._transport = transport
        self._listener.requested(self)  # the handshake is complete; this connection has timers of its own
        if not self._server.admit(self):
            self._set_done()
            transport.abort()
            return
        self._leaving = self._server.leaving
        self._task = self._loop.create_task(self._serve(), name="webhook connection")
        self._check_timeouts()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._refused:
            return
        if not self._request_started:
            self._request_started, self._since, self._received = True, self._loop.time(), 0
        self._received += len(data)
        try:
            self._parser.feed_data(data)
            if (
                self._request_started
                and self._received > 2 * self._size + 16 * self._chunks + self._server.limits.chunk_overhead
            ):
                self._refuse(400, "the chunks of the request have too much overhead")
        except httptools.HttpParserUpgrade:
            self._refuse(400, "the server does not support protocol upgrades")
        except httptools.HttpParserError as problem:
            if not self._refused:
                self._refuse(400, f"the request is not valid HTTP: {problem}")
        if self._requests and self._busy and self._transport is not None:
            self._transport.pause_reading()  # requests are processed in order, so pipelined requests wait

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the connection closed."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and not self._busy:
            self._task.cancel()
        self.resume_writing()
        self._listener.lost(self)
        self._server.forget(self)
        if not self._busy:
            self._set_done()

    def pause_writing(self) -> None:
        """Wait with writes while the send buffer is full."""
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Continue with writes."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the request target."""
        self._url += url
        self._add_head_bytes(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._add_head_bytes(len(name) + len(value))
        if self._in_body:
            return  # a trailer must not change a header (RFC 9110 section 6.5.1)
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Check the length of the body before it arrives."""
        self._in_body = True
        length = self._headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._server.limits.body:
            self._too_large()
        elif self._headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_chunk_header(self) -> None:
        """Count a chunk."""
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        if self._refused:
            return
        self._size += len(body)
        if self._size > self._server.limits.body:
            self._too_large()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Queue the complete request."""
        if self._refused:
            return
        path, _, query = self._url.decode("latin-1").partition("?")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method().decode("latin-1")
        request = WebhookRequest(method, path, query, self._headers, body, self._certificate)
        self._request_started = False
        self._since = self._loop.time()
        self._put((request, self._parser.should_keep_alive()))

    # Processing.

    async def _serve(self) -> None:
        server = self._server
        while True:
            while not self._requests:
                if self._closing and not self._request_started:
                    self._close()
                    return
                self._waiter = self._loop.create_future()
                await self._waiter
            item = self._requests.popleft()
            if isinstance(item, WebhookResponse):
                self._write(item, keep=False)
                self._close()
                return
            request, keep = item
            self._busy = True
            try:
                response = await server.answer(request)
                self._served = self._served or response.status < 400
                keep = keep and not self._leaving
                self._write(response, keep=keep)
                if self._drained is not None:
                    await self._drained
            finally:
                self._busy = False
                self._since = self._loop.time()
                if self._transport is None:
                    self._set_done()
            if not keep or self._transport is None:
                self._close()
                return
            if not self._requests:
                self._transport.resume_reading()

    def _write(self, response: WebhookResponse, *, keep: bool) -> None:
        transport = self._transport
        if transport is None:
            return
        code = response.status
        head = _HEADS.get(code)
        if head is None:
            head = _HEADS[code] = f"HTTP/1.1 {code} {_phrase(code)}\r\nContent-Type: application/json\r\n".encode()
        after = b"Retry-After: %d\r\n" % response.retry_after if response.retry_after else b""
        last = b"\r\n" if keep else b"Connection: close\r\n\r\n"
        transport.write(b"%s%sContent-Length: %d\r\n%s%s" % (head, after, len(response.body), last, response.body))

    def leave(self, linger: float = 0.0) -> None:
        """Finish the request in progress, and one that starts within `linger` seconds, then close."""
        self._leaving = True
        if linger > 0:
            self._loop.call_later(linger, self._close_when_idle)
        else:
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        self._closing = True
        self._wake()

    def abort(self) -> None:
        """Close at once."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    # Helpers.

    def _certificate(self) -> bytes | None:
        connection: Any = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if connection is None else connection.getpeercert(binary_form=True)

    def _put(self, item: tuple[WebhookRequest, bool] | WebhookResponse) -> None:
        self._requests.append(item)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _add_head_bytes(self, size: int) -> None:
        self._head += size
        if self._head > self._server.limits.head and not self._refused:
            self._refuse(431, f"the request head is longer than {self._server.limits.head} bytes")

    def _too_large(self) -> None:
        self._refuse(413, f"the request body is longer than {self._server.limits.body} bytes")

    def _refuse(self, code: int, text: str) -> None:
        """Send an error response and read no more from this connection."""
        if self._refused:
            return
        self._refused = True
        self._put(WebhookResponse(code, self._server.refuse(code, text)))

    def _check_timeouts(self) -> None:
        limits = self._server.limits
        now = self._loop.time()
        idle = limits.idle_seconds if self._served else limits.first_request_seconds
        due = self._since + (limits.request_seconds if self._request_started else idle)
        if not self._busy and now >= due:
            self._timer = None
            if self._request_started:
                self._refuse(408, f"the request was not complete after {limits.request_seconds:g} s")
            else:
                self.leave()
            return
        # The interval suits the shortest timeout, so a request needs no timer of its own.
        self._timer = self._loop.call_later(min(limits.request_seconds, idle) / 2, self._check_timeouts)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._set_done()

    def _set_done(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _require_client_certificate(context: ssl.SSLContext, authority: str) -> ssl.SSLContext:
    """Require client certificates of an authority (PEM). Raises `ssl.SSLError` for an invalid authority."""
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


_HEADS: dict[int, bytes] = {}


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "Unknown"
