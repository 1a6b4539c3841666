"""One HTTP/1.1 connection of the native transport: bytes in, one exchange at a time, answers and chunks out.

httptools (llhttp, Node.js's parser) reads the protocol, `wire` has the socket and TLS. What arrives outside an exchange
taints the connection. The pool that it belongs to is `native`'s.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import httptools

from steersman.client.errors import ConnectionLost, TransportError, TransportTimeout
from steersman.client.transport.base import PairedHeaders, RequestHeaders, Response, Take
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Pool, Wire, asked

__all__ = ["Http1Connection", "Http1Encoder", "RawHeaders", "checked"]

_LONGEST_HEAD: Final = 512 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
"""A token (RFC 9110 §5.6.2)."""
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")


class RawHeaders(PairedHeaders):
    """The head of a response as it came, which the parser has found to be in order; read seldom, so read only then."""

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
            while data[9:10] == b"1" and (end := _HEAD_END.search(data)) is not None:
                data = data[end.end() :]
            end = _HEAD_END.search(data)
            head = self._head = data if end is None else data[: end.start()]
            self._chunks = []
        return head

    def get(self, name: str) -> str | None:
        if b"\n" + name.lower().encode("latin-1") not in self._text.lower():
            return None
        found = self.get_all(name)
        return found[0] if found else None

    def _pairs(self) -> list[tuple[str, str]]:
        lines = (line.partition(":") for line in self._text.decode("latin-1").split("\n")[1:])
        return [(name.lower(), value.strip(" \t\r")) for name, _, value in lines]


class Http1Encoder:
    """Makes requests as HTTP/1.1 has them; the lines of headers that recur are kept."""

    def __init__(self, authority: str) -> None:
        self._start = f" HTTP/1.1\r\nHost: {authority}\r\n"
        self._blocks: dict[object, str] = {}

    def encode(self, method: str, where: str, headers: RequestHeaders, body: bytes | None) -> Sequence[bytes]:
        """What to send, in order. Raises TransportError for a header that cannot be sent."""
        block = self._block(headers)
        if body is None:
            length = "Content-Length: 0\r\n" if method in ("POST", "PUT", "PATCH") else ""
            return (f"{method} {where}{self._start}{block}{length}\r\n".encode("latin-1"),)
        head = f"{method} {where}{self._start}{block}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        return (head + body,) if len(body) < 1 << 16 else (head, body)

    def _block(self, headers: RequestHeaders) -> str:
        key = headers if isinstance(headers, tuple) else tuple(checked(headers))
        block = self._blocks.get(key)
        if block is None:
            block = "".join([f"{name}: {value}\r\n" for name, value in checked(headers)])
            if len(self._blocks) > 64:  # tokens rotate
                self._blocks.clear()
            self._blocks[key] = block
        return block


class Http1Connection(Wire):
    """One connection with at most one exchange at a time.

    The exchange ends in `_answer` (a future of the whole response) or, for a stream, in `_head` and then `_body`, which
    `read` takes from.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_complete",
        "_deadline",
        "_encode",
        "_head",
        "_head_done",
        "_head_size",
        "_heads",
        "_keep",
        "_parser",
        "_paused",
        "_reader",
        "_timer",
        "_unasked",
        "status",
    )

    def __init__(
        self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None, encoder: Http1Encoder
    ) -> None:
        super().__init__(pool, generation, transport, tls)
        self._encode = encoder.encode
        self._answer: asyncio.Future[Response] | None = None
        self._head: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._unasked = False
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._heads: list[bytes] = []
        self._body: list[bytes] = []
        self.status = 0
        self._head_done = False
        self._head_size = 0
        self._complete = False
        self._keep = False
        self._paused = False

    # What the pool does.

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._unasked and self._problem is None

    def ask(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        request = self._encode(method, where, headers, body)
        answer = self._answer = self._loop.create_future()
        self._send(asked(method, where), request, timeout)
        return answer

    def unask(self, answer: asyncio.Future[Response]) -> None:
        if self._answer is answer:  # once answered, the connection may already serve somebody else
            self.abort(ConnectionLost(f"{self._what}: cancelled"))

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Http1Connection:
        """Send a request and wait for the head of the response; the body comes by `read`."""
        request = self._encode(method, where, headers, body)
        head = self._head = self._loop.create_future()
        self._send(asked(method, where), request, timeout)
        try:
            await head
        except asyncio.CancelledError:
            self.abort(ConnectionLost(f"{self._what}: cancelled"))
            raise
        finally:
            self._head = None
        self._deadline = float("inf")
        return self

    @property
    def headers(self) -> RawHeaders:
        """Those of the response that is being read."""
        return RawHeaders(self._heads)

    async def read(self) -> bytes:
        """The bytes of the body that are there, or the next ones; `b""` at its end."""
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

    async def pour(self, take: Take) -> bool:
        """Give all that comes to `take`, until that wants no more (true) or the body ends (false)."""
        while data := await self.read():
            if take(data):
                return True
        return False

    def finish(self) -> None:
        """The exchange is over: back to the pool, or closed where something is left of it."""
        if self._complete and self.usable and self._keep:
            self._reset()
            self._pool.release(self)
        else:
            self.abort(ConnectionLost(f"{self._what}: the stream was left"))

    # What the wire says.

    def received(self, data: bytes) -> None:
        if self._answer is None and self._head is None and not self._head_done:
            self._unasked = True  # nobody asked: an answer here would be taken for that of the next request
            self.abort(ConnectionLost("the server spoke unasked"))
            return
        if not self._head_done:
            self._heads.append(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.abort(ConnectionLost(f"{self._what}: the server switched protocols unasked"))
        except httptools.HttpParserError as problem:
            self.abort(ConnectionLost(f"{self._what}: the answer is no HTTP: {problem}"))
        else:
            self._parsed(data)

    def _parsed(self, data: bytes) -> None:
        """Wake whoever waits for what `data` was."""
        if not self._head_done:
            self._head_size += len(data)
            if self._head_size > _LONGEST_HEAD:
                self.abort(ConnectionLost(f"{self._what}: the headers are longer than {_LONGEST_HEAD} bytes"))
        elif self._answer is not None:
            if self._complete:
                self._respond()
        elif self._complete or self._reader is not None:
            self._wake()
        elif not self._paused and self._transport is not None:
            self._paused = True  # nobody reads at present: let the kernel collect, and the server wait
            self._transport.pause_reading()

    def ended(self) -> None:
        """The server has ended the connection properly: a body without a length is complete."""
        if self._head_done and not self._complete and self._problem is None and not _has_length(self._heads):
            self._complete = True
            if self._answer is not None:
                self._keep = False
                self._respond()
            self._wake()
        transport = self._transport
        if transport is not None:
            transport.abort()  # there is nothing left to say

    def fail(self, problem: TransportError) -> None:
        for waiter in (self._answer, self._head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self._answer = None
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            self._unasked = True

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._head_done = True
            if self._head is not None and not self._head.done():
                self._head.set_result(None)

    def on_body(self, body: bytes) -> None:
        if self._complete:
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._head_done:  # otherwise an interim response (RFC 9110 §15.2): the real one follows
            self._keep = self._parser.should_keep_alive()  # true of this message only now
            self._complete = True

    # Parts.

    def _send(self, what: str, request: Sequence[bytes], timeout: float) -> None:
        self._what = what
        if self._transport is None:
            self.fail(ConnectionLost(f"{what}: the connection broke"))
            return
        self._deadline = deadline = self.now() + timeout
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._look, timeout)
        for part in request:
            self.send(part)

    def _look(self, timeout: float) -> None:
        # One timer per connection, not one per request: it looks again when the present request is due.
        self._timer = None
        if self._answer is None and self._head is None:
            return
        if self.now() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look, timeout)
            return
        self.abort(TransportTimeout(f"{self._what}: no answer within {timeout:g} s"))

    def _respond(self) -> None:
        answer = self._answer
        assert answer is not None
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        response = Response(self.status, RawHeaders(self._heads), data)
        keep = self.usable and self._keep
        self._answer = None
        if not answer.done():
            answer.set_result(response)
        if keep:
            self._reset()
            self._pool.release(self)
        elif self._transport is not None:
            self.abort(ConnectionLost(f"{self._what}: the server closes this connection"))

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _has_length(heads: list[bytes]) -> bool:
    headers = RawHeaders(list(heads))
    return headers.get("Content-Length") is not None or headers.get("Transfer-Encoding") is not None


def checked(headers: RequestHeaders) -> Iterable[tuple[str, str]]:
    """The pairs. Raises TransportError for one that would break out of its line; values may be secret, names not."""
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not _is_text(name) or not _is_text(value):
            raise TransportError(f"the header {name!r} holds a line break or another control character")
        if not _NAME(name):
            raise TransportError(f"{name!r} is no name of a header")
        yield name, value


def _is_text(text: str) -> bool:
    return text.isascii() and text.replace("\t", " ").isprintable()
