"""One HTTP/1.1 connection of the native transport, with one request at a time.

httptools (llhttp, the parser of Node.js) parses the responses; `connection` has the socket and TLS. A connection that
receives bytes outside a response is closed. `pool` keeps the idle connections.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import httptools

from steersman.client.errors import ConnectionLostError, TransportError, TransportTimeoutError
from steersman.client.transport.base import ChunkConsumer, PairedHeaders, RequestHeaders, Response
from steersman.client.transport.connection import Connection, Pool, request_label
from steersman.client.transport.tls import TlsLayer

__all__ = ["Http1Connection", "Http1Encoder", "RawHeaders", "checked_headers"]

_MAX_HEADER_BYTES: Final = 512 * 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
"""A token (RFC 9110 §5.6.2)."""
_HEADERS_END: Final = re.compile(rb"\r?\n\r?\n")


class RawHeaders(PairedHeaders):
    """The header bytes of a response that the parser has accepted. They are decoded only when a header is read."""

    __slots__ = ("_chunks", "_head")

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self._head: bytes | None = None

    @property
    def _text(self) -> bytes:
        head = self._head
        if head is None:
            chunks = self._chunks
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            # An interim response (RFC 9110 §15.2) has a head of its own, and the real one follows.
            while data[9:10] == b"1" and (end := _HEADERS_END.search(data)) is not None:
                data = data[end.end() :]
            end = _HEADERS_END.search(data)
            head = self._head = data if end is None else data[: end.start()]
            self._chunks = []
        return head

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or `None`."""
        if b"\n" + name.lower().encode("latin-1") not in self._text.lower():
            return None
        found = self.get_all(name)
        return found[0] if found else None

    def _pairs(self) -> list[tuple[str, str]]:
        lines = (line.partition(":") for line in self._text.decode("latin-1").split("\n")[1:])
        return [(name.lower(), value.strip(" \t\r")) for name, _, value in lines]


class Http1Encoder:
    """Encodes requests for HTTP/1.1 and caches the encoded headers, which repeat."""

    def __init__(self, authority: str) -> None:
        self._start = f" HTTP/1.1\r\nHost: {authority}\r\n"
        self._blocks: dict[object, str] = {}

    def encode(self, method: str, where: str, headers: RequestHeaders, body: bytes | None) -> Sequence[bytes]:
        """Return the bytes of a request in order. Raises TransportError for an invalid header."""
        block = self._block(headers)
        if body is None:
            length = "Content-Length: 0\r\n" if method in ("POST", "PUT", "PATCH") else ""
            return (f"{method} {where}{self._start}{block}{length}\r\n".encode("latin-1"),)
        head = f"{method} {where}{self._start}{block}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        return (head + body,) if len(body) < 1 << 16 else (head, body)

    def _block(self, headers: RequestHeaders) -> str:
        key = headers if isinstance(headers, tuple) else tuple(checked_headers(headers))
        block = self._blocks.get(key)
        if block is None:
            block = "".join([f"{name}: {value}\r\n" for name, value in checked_headers(headers)])
            if len(self._blocks) > 64:  # tokens rotate
                self._blocks.clear()
            self._blocks[key] = block
        return block


class Http1Connection(Connection):
    """One connection with at most one request at a time.

    `_response` is the future of a complete response. For a stream, `_head` is the future of its headers, and `read`
    takes the bytes of `_body`.
    """

    __slots__ = (
        "_body",
        "_complete",
        "_deadline",
        "_encode",
        "_head",
        "_head_done",
        "_head_size",
        "_heads",
        "_keep_alive",
        "_parser",
        "_paused",
        "_reader",
        "_response",
        "_timer",
        "_unexpected_data",
        "status",
    )

    def __init__(
        self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None, encoder: Http1Encoder
    ) -> None:
        super().__init__(pool, generation, transport, tls)
        self._encode = encoder.encode
        self._response: asyncio.Future[Response] | None = None
        self._head: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._unexpected_data = False
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._heads: list[bytes] = []
        self._body: list[bytes] = []
        self.status = 0
        self._head_done = False
        self._head_size = 0
        self._complete = False
        self._keep_alive = False
        self._paused = False

    # Methods for the pool.

    @property
    def usable(self) -> bool:
        """Whether another request may be sent now."""
        return self._transport is not None and not self._unexpected_data and self._problem is None

    def send_request(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        """Send a request; see `Connection.send_request`."""
        request = self._encode(method, where, headers, body)
        response = self._response = self._loop.create_future()
        self._send(request_label(method, where), request, timeout)
        return response

    def cancel_request(self, response: asyncio.Future[Response]) -> None:
        """Close the connection, unless the response is complete: then it may already serve another request."""
        if self._response is response:
            self.abort(ConnectionLostError(f"{self._label}: cancelled"))

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Http1Connection:
        """Send a request and wait for the response headers; `read` returns the body."""
        request = self._encode(method, where, headers, body)
        head = self._head = self._loop.create_future()
        self._send(request_label(method, where), request, timeout)
        try:
            await head
        except asyncio.CancelledError:
            self.abort(ConnectionLostError(f"{self._label}: cancelled"))
            raise
        finally:
            self._head = None
        self._deadline = float("inf")
        return self

    @property
    def headers(self) -> RawHeaders:
        """The headers of the response that is being read."""
        return RawHeaders(self._heads)

    async def read(self) -> bytes:
        """Return the available bytes of the body, or wait for the next ones; `b""` at its end."""
        while not self._body:
            if self._complete:
                return b""
            if self._problem is not None:
                raise self._problem
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            reader = self._reader = self._loop.create_future()
            try:
                await reader
            finally:
                self._reader = None
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        return data

    async def deliver(self, take: ChunkConsumer) -> bool:
        """Pass the body to `take` until it returns True, or until the end (returns False)."""
        while data := await self.read():
            if take(data):
                return True
        return False

    def finish(self) -> None:
        """End the exchange: return the connection to the pool if the response is complete, else close it."""
        if self._complete and self.usable and self._keep_alive:
            self._reset()
            self._pool.release(self)
        else:
            self.abort(ConnectionLostError(f"{self._label}: the stream was left"))

    # Methods for the connection base class.

    def received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._response is None and self._head is None and not self._head_done:
            self._unexpected_data = True  # without a request, this response would be taken for that of the next request
            self.abort(ConnectionLostError("the server sent data without a request"))
            return
        if not self._head_done:
            self._heads.append(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.abort(ConnectionLostError(f"{self._label}: the server switched protocols without a request for it"))
        except httptools.HttpParserError as problem:
            self.abort(ConnectionLostError(f"{self._label}: the response is not valid HTTP: {problem}"))
        else:
            self._parsed(data)

    def _parsed(self, data: bytes) -> None:
        """Wake the task that waits for what `data` completed."""
        if not self._head_done:
            self._head_size += len(data)
            if self._head_size > _MAX_HEADER_BYTES:
                self.abort(ConnectionLostError(f"{self._label}: the headers are longer than {_MAX_HEADER_BYTES} bytes"))
        elif self._response is not None:
            if self._complete:
                self._respond()
        elif self._complete or self._reader is not None:
            self._wake()
        elif not self._paused and self._transport is not None:
            self._paused = True  # no task reads now: the kernel buffers, and TCP flow control stops the server
            self._transport.pause_reading()

    def ended(self) -> None:
        """Handle the orderly end of the connection: it completes a body without a length (RFC 9112 section 6.3)."""
        if self._head_done and not self._complete and self._problem is None and not _has_length(self._heads):
            self._complete = True
            if self._response is not None:
                self._keep_alive = False
                self._respond()
            self._wake()
        transport = self._transport
        if transport is not None:
            transport.abort()  # there is nothing left to send

    def fail(self, problem: TransportError) -> None:
        """Fail the pending request and wake its tasks."""
        for waiter in (self._response, self._head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self._response = None
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Note a second response to one request."""
        if self._complete:
            self._unexpected_data = True

    def on_headers_complete(self) -> None:
        """Store the status, and wake the task that waits for the headers."""
        if self._complete:
            return
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._head_done = True
            if self._head is not None and not self._head.done():
                self._head.set_result(None)

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body."""
        if self._complete:
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Mark the response as complete, unless it is an interim response (RFC 9110 section 15.2)."""
        if self._head_done:
            self._keep_alive = self._parser.should_keep_alive()  # the parser knows this for the message only now
            self._complete = True

    # Helpers.

    def _send(self, label: str, request: Sequence[bytes], timeout: float) -> None:
        self._label = label
        if self._transport is None:
            self.fail(ConnectionLostError(f"{label}: the connection broke"))
            return
        self._deadline = deadline = self.now() + timeout
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._check, timeout)
        for part in request:
            self.send(part)

    def _check(self, timeout: float) -> None:
        # One timer per connection, not one per request: it starts again until the current request is due.
        self._timer = None
        if self._response is None and self._head is None:
            return
        if self.now() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check, timeout)
            return
        self.abort(TransportTimeoutError(f"{self._label}: no response within {timeout:g} s"))

    def _respond(self) -> None:
        future = self._response
        assert future is not None
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        response = Response(self.status, RawHeaders(self._heads), data)
        keep = self.usable and self._keep_alive
        self._response = None
        if not future.done():
            future.set_result(response)
        if keep:
            self._reset()
            self._pool.release(self)
        elif self._transport is not None:
            self.abort(ConnectionLostError(f"{self._label}: the server closes this connection"))

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _has_length(heads: list[bytes]) -> bool:
    headers = RawHeaders(list(heads))
    return headers.get("Content-Length") is not None or headers.get("Transfer-Encoding") is not None


def checked_headers(headers: RequestHeaders) -> Iterable[tuple[str, str]]:
    """Yield the pairs. Raises TransportError for a name or value with a line break; the value may be a credential."""
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not _is_text(name) or not _is_text(value):
            raise TransportError(f"the header {name!r} holds a line break or another control character")
        if not _TOKEN(name):
            raise TransportError(f"{name!r} is not a valid header name")
        yield name, value


def _is_text(text: str) -> bool:
    return text.isascii() and text.replace("\t", " ").isprintable()
