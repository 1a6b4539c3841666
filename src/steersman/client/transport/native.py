"""The default transport: HTTP/1.1 on the event loop itself; httptools (llhttp, Node.js's parser) reads the protocol.

It exists because the bars for events and updates cannot be met through a library: those that do HTTP in a thread
of their own pay two hand-overs per answer, those in Python ten times the parsing. Here a response is one callback
of the loop, and a watch's bytes are handed on as they come, however many events they hold.

What it never does: HTTP/2, proxies, web sockets (other transports do), redirects, retries, decompression. A connection
on which anything unexpected arrives is closed, never used again.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httptools

from steersman.client.config import ClientCertificate, Config
from steersman.client.config.tls import ssl_context
from steersman.client.errors import ConnectError, ConnectionLost, TransportError, TransportTimeout
from steersman.client.transport.base import (
    Query,
    RequestHeaders,
    Response,
    StreamResponse,
    Transport,
    UnsupportedTransport,
    WebSocket,
    target,
)
from steersman.client.transport.idle import IdleWatchdog
from steersman.client.transport.tls import TlsClosed, TlsLayer

__all__ = ["NativeTransport", "can_use_native"]

_CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
"""How long an unused connection is kept; servers close theirs after 75 s (nginx) or some minutes (the API server)."""
_LONGEST_HEAD: Final = 512 * 1024
_CLOSED: Final = "the client is closed"
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")


def can_use_native(config: Config) -> bool:
    """False where a proxy stands between: the others can speak to those."""
    return config.proxy is None


class _RawHeaders:
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

    def get_all(self, name: str) -> Sequence[str]:
        name = name.lower()
        return [value for known, value in self._pairs() if known == name]

    def _pairs(self) -> list[tuple[str, str]]:
        lines = (line.partition(":") for line in self._text.decode("latin-1").split("\n")[1:])
        return [(name.lower(), value.strip(" \t\r")) for name, _, value in lines]

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self._pairs())}>"


class _Connection(asyncio.Protocol):
    """One connection with at most one exchange at a time.

    The exchange ends in `_answer` (a future of the whole response) or, for a stream, in `_head` and then `_parts`. What
    arrives outside an exchange taints the connection.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_complete",
        "_deadline",
        "_head",
        "_head_done",
        "_head_size",
        "_heads",
        "_keep",
        "_loop",
        "_parser",
        "_paused",
        "_pool",
        "_problem",
        "_reader",
        "_status",
        "_timer",
        "_tls",
        "_transport",
        "_unasked",
        "_what",
        "generation",
        "idle_since",
        "now",
        "shaken",
    )

    def __init__(self, pool: NativeTransport, generation: int, tls: TlsLayer | None) -> None:
        self._pool = pool
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.generation = generation
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._problem: TransportError | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._head: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._what = ""
        self._unasked = False
        self._parser = httptools.HttpResponseParser(self)
        self.shaken: asyncio.Future[None] = self._loop.create_future()
        """Done when requests may be sent; fails with what the handshake failed of."""
        self._reset()

    def _reset(self) -> None:
        self._heads: list[bytes] = []
        self._body: list[bytes] = []
        self._status = 0
        self._head_done = False
        self._head_size = 0
        self._complete = False
        self._keep = False
        self._paused = False

    # What the pool does.

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._unasked and self._problem is None

    async def handshake(self) -> None:
        """Wait until requests may be sent; raises what the handshake fails of, and closes then."""
        try:
            await self.shaken
        except BaseException:
            if self._transport is not None:
                self._transport.close()  # an alert that says why may still be on its way
            raise

    async def exchange(self, what: str, request: Sequence[bytes], timeout: float) -> Response:
        """Send a request and wait for the whole response."""
        answer = self._answer = self._loop.create_future()
        self._send(what, request, timeout)
        try:
            return await answer
        except asyncio.CancelledError:
            # Once answered, the connection may already serve somebody else.
            if self._answer is answer:
                self.abort(ConnectionLost(f"{what}: cancelled"))
            raise
        finally:
            if self._answer is answer:
                self._answer = None

    async def open(self, what: str, request: Sequence[bytes], timeout: float) -> tuple[int, _RawHeaders]:
        """Send a request and wait for the head of the response; the body comes by `read`."""
        head = self._head = self._loop.create_future()
        self._send(what, request, timeout)
        try:
            await head
        except asyncio.CancelledError:
            self.abort(ConnectionLost(f"{what}: cancelled"))
            raise
        finally:
            self._head = None
        self._deadline = float("inf")
        return self._status, _RawHeaders(self._heads)

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

    def finish(self) -> None:
        """The exchange is over: back to the pool, or closed where something is left of it."""
        if self._complete and self.usable and self._keep:
            self._reset()
            self._pool.release(self)
        else:
            self.abort(ConnectionLost(f"{self._what}: the stream was left"))

    def abort(self, problem: TransportError) -> None:
        """Close at once; whoever waits gets `problem`."""
        self._fail(problem)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    # What the loop calls.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._tls is None:
            self.shaken.set_result(None)
        else:
            self._shake(self._tls, b"")

    def data_received(self, data: bytes) -> None:
        tls = self._tls
        if tls is None:
            self._received(data)
            return
        if not tls.shaken:
            self._shake(tls, data)
            data = b""
            if not tls.shaken:
                return
        try:
            plain = tls.opened(data)
        except TlsClosed as end:
            if end.data:
                self._received(end.data)
            self._ended()
            return
        except ssl.SSLError as problem:
            self._alert(tls)
            self.abort(ConnectionLost(f"{self._what}: the connection broke: {problem}"))
            return
        self._alert(tls)
        if plain:
            self._received(plain)

    def _shake(self, tls: TlsLayer, data: bytes) -> None:
        try:
            if tls.shake(data) and not self.shaken.done():
                self.shaken.set_result(None)
        except (ssl.SSLError, ValueError) as problem:
            if not self.shaken.done():
                self.shaken.set_exception(problem)
        self._alert(tls)

    def _alert(self, tls: TlsLayer) -> None:
        """Send what TLS has to say of itself."""
        if (records := tls.to_send()) and self._transport is not None:
            self._transport.write(records)

    def _received(self, data: bytes) -> None:
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

    def _ended(self) -> None:
        """The server has ended the connection properly: a body without a length is complete."""
        if self._head_done and not self._complete and self._problem is None and not _has_length(self._heads):
            self._complete = True
            if self._answer is not None:
                self._keep = False
                self._respond()
            self._wake()
        transport = self._transport
        if transport is not None:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._tls is None and self._transport is not None:
            self._ended()
        self._transport = None
        if not self.shaken.done():
            self.shaken.set_exception(exc or ConnectionResetError("the server closed the connection"))
        self._fail(ConnectionLost(f"{self._what}: the connection broke: {exc or 'closed by the server'}"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pool.forget(self)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            self._unasked = True

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self._status = self._parser.get_status_code()
        if self._status >= 200:
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
        transport = self._transport
        if transport is None:
            self._fail(ConnectionLost(f"{what}: the connection broke"))
            return
        self._deadline = deadline = self.now() + timeout
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._look, timeout)
        tls = self._tls
        for part in request:
            transport.write(part if tls is None else tls.sealed(part))

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
        response = Response(self._status, _RawHeaders(self._heads), data)
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

    def _fail(self, problem: TransportError) -> None:
        if self._problem is None:
            self._problem = problem
        for waiter in (self._answer, self._head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(self._problem)
        self._wake()


class NativeTransport(UnsupportedTransport):
    """HTTP/1.1 over plain TCP or TLS, on the running event loop; only the configured CA is trusted.

    Connections are kept for 60 s and built anew when the client certificate rotates; those in use finish first. Not
    limited in number: the client limits requests in flight. Web sockets go through `AiohttpTransport`.
    """

    def __init__(self, config: Config) -> None:
        if not can_use_native(config):
            raise TransportError(f"{config.server} is behind a proxy, which NativeTransport cannot use")
        self._config = config
        parts = urlsplit(config.server)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._start = f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._streams: set[IdleWatchdog] = set()
        self._certificate: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None
        self._generation = 0
        self._blocks: dict[Any, str] = {}
        self._questions: dict[Any, str] = {}
        self._sockets: Transport | None = None
        self._closed = False

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
        what = f"{method} {path}"
        request = self._encoded(method, path, query, headers, body)
        connection = self._take() or await self._connect(what, timeout)
        return await connection.exchange(what, request, timeout)

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
        request = self._encoded(method, path, query, headers, body)
        return self._stream(request, f"{method} {path}", connect_timeout, idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, request: Sequence[bytes], what: str, connect_timeout: float, idle_timeout: float
    ) -> AsyncGenerator[StreamResponse]:
        connection = self._take() or await self._connect(what, connect_timeout)
        status, headers = await connection.open(what, request, connect_timeout)
        watchdog = IdleWatchdog(idle_timeout, what)
        self._streams.add(watchdog)
        try:
            yield StreamResponse(status, headers, _Chunks(connection, watchdog))
        finally:
            self._streams.discard(watchdog)
            watchdog.stop()
            connection.finish()

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        if self._sockets is None:
            from steersman.client.transport.aiohttp import AiohttpTransport

            self._sockets = AiohttpTransport(self._config)
        return await self._sockets.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        self._closed = True
        for watchdog in self._streams:
            watchdog.fail(TransportError(_CLOSED))
        for connection in list(self._all):
            connection.abort(TransportError(_CLOSED))
        self._idle.clear()
        if self._sockets is not None:
            await self._sockets.close()
        for _ in range(10):  # lets the sockets notice
            if not self._all:
                return
            await asyncio.sleep(0)

    # The pool.

    def release(self, connection: _Connection) -> None:
        """A connection is free again."""
        if self._closed or connection.generation != self._generation:
            connection.abort(TransportError(_CLOSED))
            return
        connection.idle_since = connection.now()
        self._idle.append(connection)

    def forget(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _take(self) -> _Connection | None:
        if self._config.auth.client_certificate() is not self._certificate:
            self._context = None
            self._generation += 1
        while self._idle:
            # The last one used comes first, so that those which are not needed grow old.
            connection = self._idle.pop()
            fresh = connection.now() - connection.idle_since < _IDLE_SECONDS
            if fresh and connection.usable and connection.generation == self._generation:
                return connection
            connection.abort(TransportError("not used any more"))
        return None

    async def _connect(self, what: str, timeout: float) -> _Connection:
        if self._closed:
            raise TransportError(f"{what}: {_CLOSED}")
        loop = asyncio.get_running_loop()
        name = self._config.tls.server_name or self._host
        limit = min(timeout, _CONNECT_SECONDS)
        try:
            context = self._tls_context() if self._tls else None
        except (ssl.SSLError, ValueError) as problem:
            # The message may quote the PEM: only say which of our inputs was refused.
            raise TransportError(
                f"{self._config.server}: the TLS settings cannot be used ({type(problem).__name__}): check that the CA,"
                " the client certificate and its key are PEM and belong together"
            ) from None
        try:
            async with asyncio.timeout(limit):
                tls = None if context is None else TlsLayer(context, name)
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, self._generation, tls), self._host, self._port
                )
                await connection.handshake()
        except TimeoutError:
            raise ConnectError(f"{what}: cannot connect: no answer within {limit:g} s") from None
        except (OSError, UnicodeError) as problem:
            raise ConnectError(f"{what}: cannot connect: {_explain(problem)}") from None
        self._all.add(connection)
        if self._closed:
            connection.abort(TransportError(_CLOSED))
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._certificate = self._config.auth.client_certificate()
            self._context = ssl_context(self._config.tls, self._certificate)
        return self._context

    # The request.

    def _encoded(
        self, method: str, path: str, query: Query, headers: RequestHeaders, body: bytes | None
    ) -> Sequence[bytes]:
        where = f"{self._prefix}{path}{self._question(query)}" if query else self._prefix + path
        if not where.isascii() or not where.isprintable() or " " in where:
            raise TransportError(f"{method} {path!r}: the path must be percent-encoded")
        block = self._block(headers)
        if body is None:
            length = "Content-Length: 0\r\n" if method in ("POST", "PUT", "PATCH") else ""
            return (f"{method} {where}{self._start}{block}{length}\r\n".encode("latin-1"),)
        head = f"{method} {where}{self._start}{block}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        return (head + body,) if len(body) < 1 << 16 else (head, body)

    def _question(self, query: Query) -> str:
        # Nearly all requests of a process ask one of a few questions.
        pairs = tuple(query.items() if isinstance(query, dict) else _pairs(query))
        question = self._questions.get(pairs)
        if question is None:
            question = target("", pairs)
            if len(self._questions) > 64:  # each page of a list has its own
                self._questions.clear()
            self._questions[pairs] = question
        return question

    def _block(self, headers: RequestHeaders) -> str:
        pairs = headers if isinstance(headers, tuple) else tuple(_pairs(headers))
        block = self._blocks.get(pairs)
        if block is None:
            for name, value in pairs:
                if not _is_header(name) or not _is_header(value):
                    raise TransportError(f"the header {name!r} holds a line break or another control character")
            block = "".join([f"{name}: {value}\r\n" for name, value in pairs])
            if len(self._blocks) > 64:  # tokens rotate
                self._blocks.clear()
            self._blocks[pairs] = block
        return block


class _Chunks:
    __slots__ = ("_connection", "_watchdog")

    def __init__(self, connection: _Connection, watchdog: IdleWatchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._watchdog.read(self._connection.read)
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _pairs(pairs: RequestHeaders | Query) -> Iterable[tuple[str, str]]:
    return pairs.items() if isinstance(pairs, Mapping) else pairs


def _is_header(text: str) -> bool:
    try:
        return text.encode("latin-1").isascii() and text.replace("\t", " ").isprintable()
    except UnicodeEncodeError:
        return False


def _has_length(heads: list[bytes]) -> bool:
    headers = _RawHeaders(list(heads))
    return headers.get("Content-Length") is not None or headers.get("Transfer-Encoding") is not None


def _explain(problem: Exception) -> str:
    text = str(problem) or type(problem).__name__
    if isinstance(problem, ssl.SSLCertVerificationError):
        if "hostname mismatch" in text.lower() or "ip address mismatch" in text.lower():
            return f"{text}. It is the certificate of another name: check the server URL and tls-server-name"
        return (
            f"{text}. The server's certificate is not signed by a CA that is trusted: check certificate-authority-data"
        )
    if isinstance(problem, ConnectionRefusedError) or "connect call failed" in text.lower():
        return f"{text}. Nobody listens there: is the API server running, and the server URL right?"
    return text
