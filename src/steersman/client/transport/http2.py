"""One HTTP/2 connection of the native transport (RFC 9113): all requests and watches of a client side by side.

What it saves is the crossing of borders: the requests that a pass of the loop makes leave in one record and one system
call, and the answers and events that have come meanwhile arrive in one. A reader that does not read holds up its own
stream only. A connection that is silent while somebody waits is asked (PING) whether it still lives.

What it never does: push, priorities, dynamic header tables. A connection on which anything unexpected arrives is
closed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.errors import ConnectError, ConnectionLost, TransportError, TransportTimeout
from steersman.client.transport import http2_wire as wire
from steersman.client.transport.base import Response
from steersman.client.transport.http2_wire import FRAME_HEAD, BlockHeaders, Http2Encoder, frame, status_of
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Pool, Wire

__all__ = ["MOST_STREAMS", "Http2Connection", "NotBegun"]

_STREAM_WINDOW: Final = 1 << 19
"""Bytes of one response that may wait for their reader."""
_CONNECTION_WINDOW: Final = 1 << 30
_LONGEST_FRAME: Final = 1 << 14
"""What every server takes."""
_LONGEST_TAKEN: Final = 1 << 20
"""What servers may send: the frames of a list are handed on as they come, so that few and long ones cost least."""
_LONGEST_HEAD: Final = 512 * 1024
MOST_STREAMS: Final = 100
"""Until the server says what it allows; kube-apiserver allows 100 by default."""
_LAST_STREAM: Final = 1 << 30
_PING_AFTER: Final = 30.0
_PING_LIMIT: Final = 15.0
"""Seconds of silence before a connection is asked, and until it is given up; client-go's numbers."""
_NEVER: Final = float("inf")
_SIZES: Final = {wire.RST_STREAM: 4, wire.PING: 8, wire.WINDOW_UPDATE: 4}
_SETTINGS: Final = {0x1: 0, 0x2: 0, 0x4: _STREAM_WINDOW, 0x5: _LONGEST_TAKEN, 0x6: _LONGEST_HEAD}
"""HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE."""

Request = tuple[bytes, bytes | None]


class NotBegun(ConnectError):  # noqa: N818 - reads as what it says
    """The server says that it has not begun with a request (RFC 9113 §6.8, §8.7): it may be asked elsewhere."""


class _Stream:
    """One request and its response. `answer` waits for the whole, `head` for the status, `reader` for more."""

    __slots__ = (
        "_connection",
        "answer",
        "arrived",
        "block",
        "body",
        "complete",
        "deadline",
        "head",
        "id",
        "problem",
        "reader",
        "status",
        "unsent",
        "what",
        "window",
    )

    def __init__(self, connection: Http2Connection, number: int, what: str, deadline: float) -> None:
        self._connection = connection
        self.id = number
        self.what = what
        self.deadline = deadline
        self.answer: asyncio.Future[Response] | None = None
        self.head: asyncio.Future[None] | None = None
        self.reader: asyncio.Future[None] | None = None
        self.status = 0
        self.block = b""
        self.body: list[bytes] = []
        self.arrived = 0  # bytes that the server has not been given room for again
        self.complete = False
        self.problem: TransportError | None = None
        self.unsent: memoryview | None = None
        self.window = 0

    @property
    def headers(self) -> BlockHeaders:
        return BlockHeaders(self.block)

    async def read(self) -> bytes:
        """The bytes of the body that are there, or the next ones; `b""` at its end."""
        body = self.body
        while not body:
            if self.complete:
                return b""
            if self.problem is not None:
                raise self.problem
            reader = self.reader = self._connection.future()
            try:
                await reader
            finally:
                self.reader = None
        data = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        if self.arrived > _STREAM_WINDOW >> 1 and not self.complete:
            self._connection.make_room(self)
        return data

    def finish(self) -> None:
        """The reader leaves; a response that is not complete is cancelled."""
        self._connection.leave(self, "left")

    def fail(self, problem: TransportError) -> None:
        """Whoever waits gets `problem`."""
        self.problem = problem
        for waiter in (self.answer, self.head):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)


class Http2Connection(Wire):
    """One connection with many exchanges at a time; each `_Stream` is one of them."""

    __slots__ = (
        "_arrived",
        "_blind",
        "_blocked",
        "_deadline",
        "_draining",
        "_head",
        "_heard",
        "_next",
        "_open",
        "_out",
        "_pinged",
        "_rest",
        "_room",
        "_start_room",
        "_streams",
        "_timer",
        "encode",
        "future",
        "most",
    )

    def __init__(
        self,
        pool: Pool,
        generation: int,
        transport: asyncio.Transport,
        tls: TlsLayer | None,
        encode: Http2Encoder,
        most: int = MOST_STREAMS,
    ) -> None:
        super().__init__(pool, generation, transport, tls)
        self.encode = encode
        self.most = most  # streams at a time
        self.future = self._loop.create_future
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._blind = _LAST_STREAM  # streams below it were begun before the server last said what it allows
        self._draining = False
        self._out: list[bytes] = []
        self._rest = b""
        self._open: tuple[int, int, int] = (0, 0, 0)  # a DATA frame that has begun: stream, flags, bytes to come
        self._head: tuple[int, int, bytes] | None = None  # a header block of which more frames must come
        self._arrived = 0
        self._room = 65_535  # bytes that the server takes on the connection, and on a new stream
        self._start_room = 65_535
        self._blocked: list[_Stream] = []
        self._heard = self.now()
        self._pinged = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = _NEVER

    # What the pool does.

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._draining and len(self._streams) < self.most

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return bool(self._streams)

    async def exchange(self, what: str, request: Request, timeout: float) -> Response:
        stream = self._start(what, request, timeout)
        answer = stream.answer = self.future()
        try:
            return await answer
        except asyncio.CancelledError:
            self.leave(stream, "cancelled")
            raise

    async def open(self, what: str, request: Request, timeout: float) -> _Stream:
        stream = self._start(what, request, timeout)
        head = stream.head = self.future()
        try:
            await head
        except asyncio.CancelledError:
            self.leave(stream, "cancelled")
            raise
        finally:
            stream.head = None
        stream.deadline = _NEVER
        return stream

    def drain(self) -> None:
        """Take no more requests; closes when the last one has ended."""
        self._draining = True
        if not self._streams:
            self.abort(ConnectionLost("the connection is not used any more"))

    # What a stream says.

    def make_room(self, stream: _Stream) -> None:
        """The server may send what has been read once more."""
        self._put(frame(wire.WINDOW_UPDATE, 0, stream.id, stream.arrived.to_bytes(4, "big")))
        stream.arrived = 0

    def leave(self, stream: _Stream, why: str) -> None:
        """Nobody waits for it any more. Once it has ended, this is nothing."""
        if self._streams.get(stream.id) is stream:
            self._put(frame(wire.RST_STREAM, 0, stream.id, wire.CANCEL.to_bytes(4, "big")))
            self._end(stream, ConnectionLost(f"{stream.what}: {why}"))

    # What the wire says.

    def begin(self) -> None:
        settings = b"".join([key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in _SETTINGS.items()])
        room = (_CONNECTION_WINDOW - 65_535).to_bytes(4, "big")
        self.send(wire.PREFACE + frame(wire.SETTINGS, 0, 0, settings) + frame(wire.WINDOW_UPDATE, 0, 0, room))

    def received(self, data: bytes) -> None:  # noqa: C901 - the hot path is one loop
        self._heard = self.now()
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at, end = 0, len(data)
        try:
            number, flags, left = self._open
            if left:
                at = min(left, end)
                self._open = (number, flags, left - at)
                self._data(number, flags if at == left else 0, data[:at])
            while end - at >= 9:
                high, low, kind, flags, number = FRAME_HEAD.unpack_from(data, at)
                size = high << 16 | low
                number &= 0x7FFF_FFFF
                start = at + 9
                at = start + size
                if self._head is not None and kind != wire.CONTINUATION:
                    raise ValueError("a header block broke off")
                if at > end:
                    if size > _LONGEST_TAKEN:
                        raise ValueError(f"a frame of {size} bytes")
                    if kind == wire.DATA and not flags & wire.PADDED:
                        self._open = (number, flags, at - end)
                        self._data(number, 0, data[start:])
                        return
                    at = start - 9
                    break
                if kind == wire.DATA:
                    self._data(number, flags, data[start:at])
                elif kind == wire.HEADERS:
                    self._headers(number, flags, data[start:at])
                else:
                    if size != _SIZES.get(kind, size):
                        raise ValueError(f"a frame of type {kind} with {size} bytes")
                    self._control(kind, flags, number, data[start:at])
        except (ValueError, IndexError, KeyError) as problem:
            code = wire.PROTOCOL_ERROR
            self.send(frame(wire.GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big")))
            self.abort(ConnectionLost(f"the answer is no HTTP/2: {problem}"))
            return
        if at < end:
            self._rest = data[at:]

    def ended(self) -> None:
        self.abort(ConnectionLost("the connection broke: closed by the server"))

    def fail(self, problem: TransportError) -> None:
        streams, self._streams = self._streams, {}
        self._blocked.clear()
        for stream in streams.values():
            stream.fail(_said(problem, stream.what))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Sending.

    def _start(self, what: str, request: Request, timeout: float) -> _Stream:
        """Send a request under a number of its own."""
        number = self._next
        self._next = number + 2
        if self._next > _LAST_STREAM:
            self._draining = True
        deadline = self.now() + timeout
        stream = _Stream(self, number, what, deadline)
        if self._transport is None:
            raise _said(self._problem or ConnectionLost("the connection broke"), what)
        self._streams[number] = stream
        if deadline < self._deadline:
            self._wake_at(deadline)
        block, body = request
        flags = wire.END_HEADERS if body else wire.END_HEADERS | wire.END_STREAM
        if len(block) > _LONGEST_FRAME:
            self._put_long(number, flags, block)
        else:
            self._put(frame(wire.HEADERS, flags, number, block))
        if body:
            size = len(body)
            if size <= _LONGEST_FRAME and size <= self._room and size <= self._start_room and not self._blocked:
                self._room -= size
                self._out.append(frame(wire.DATA, wire.END_STREAM, number, body))
            else:
                stream.unsent = memoryview(body)
                stream.window = self._start_room
                self._blocked.append(stream)
                self._push()
        return stream

    def _put_long(self, number: int, flags: int, block: bytes) -> None:
        parts = [block[at : at + _LONGEST_FRAME] for at in range(0, len(block), _LONGEST_FRAME)]
        self._put(frame(wire.HEADERS, flags & ~wire.END_HEADERS, number, parts[0]))
        for part in parts[1:-1]:
            self._put(frame(wire.CONTINUATION, 0, number, part))
        self._put(frame(wire.CONTINUATION, wire.END_HEADERS, number, parts[-1]))

    def _push(self) -> None:
        """Send of the bodies that wait what the server has room for."""
        waiting: list[_Stream] = []
        for stream in self._blocked:
            rest = stream.unsent
            while rest is not None and (size := min(len(rest), self._room, stream.window, _LONGEST_FRAME)) > 0:
                self._room -= size
                stream.window -= size
                last = size == len(rest)
                self._put(frame(wire.DATA, wire.END_STREAM if last else 0, stream.id, bytes(rest[:size])))
                rest = stream.unsent = None if last else rest[size:]
            if rest is not None:
                waiting.append(stream)
        self._blocked = waiting

    def _put(self, data: bytes) -> None:
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(data)

    def _flush(self) -> None:
        out = self._out
        if out:
            data = b"".join(out)
            out.clear()
            self.send(data)

    # Receiving.

    def _data(self, number: int, flags: int, data: bytes) -> None:  # noqa: C901 - the hot path
        size = len(data)
        self._arrived += size
        if self._arrived > _CONNECTION_WINDOW >> 1:
            self._put(frame(wire.WINDOW_UPDATE, 0, 0, self._arrived.to_bytes(4, "big")))
            self._arrived = 0
        stream = self._streams.get(number)
        if stream is None:
            self._never_opened(number)
            return
        if flags & wire.PADDED:
            data = _unpadded(data)
        if not stream.status:
            raise ValueError("a body without a head")
        if data:
            stream.body.append(data)
        if flags & wire.END_STREAM:
            self._completed(stream)
            return
        stream.arrived += size
        if stream.reader is not None:
            if not stream.reader.done():
                stream.reader.set_result(None)
        elif stream.arrived > _STREAM_WINDOW >> 1:
            if stream.answer is not None:
                self.make_room(stream)
            elif stream.arrived > _STREAM_WINDOW:
                raise ValueError("more than was allowed to come")

    def _headers(self, number: int, flags: int, block: bytes) -> None:
        if flags & wire.PADDED:
            block = _unpadded(block)
        if flags & wire.PRIORITY:
            block = block[5:]
        if not flags & wire.END_HEADERS:
            self._head = (number, flags, block)
            return
        stream = self._streams.get(number)
        if stream is None:
            self._never_opened(number)
            return
        if not stream.status:
            status = status_of(block)
            if status < 200 and not flags & wire.END_STREAM:
                return  # an interim response (RFC 9110 §15.2): the real one follows
            stream.status = status
            stream.block = block
            if stream.head is not None and not stream.head.done():
                stream.head.set_result(None)
        elif not flags & wire.END_STREAM:
            raise ValueError("a second head")
        if flags & wire.END_STREAM:
            self._completed(stream)

    def _never_opened(self, number: int) -> None:
        """What comes for a stream that was left is late; for one that never was, it is an error."""
        if number >= self._next or not number & 1:
            raise ValueError(f"a frame for stream {number}, which was never opened")

    def _completed(self, stream: _Stream) -> None:
        if stream.status < 200:
            raise ValueError("a response that ends before it has begun")
        stream.complete = True
        answer = stream.answer
        if answer is not None:
            body = stream.body
            data = body[0] if len(body) == 1 else b"".join(body)
            if not answer.done():
                answer.set_result(Response(stream.status, BlockHeaders(stream.block), data))
        elif stream.reader is not None and not stream.reader.done():
            stream.reader.set_result(None)
        if stream.unsent is not None:  # the server has answered before it heard all
            self._put(frame(wire.RST_STREAM, 0, stream.id, wire.NO_ERROR.to_bytes(4, "big")))
        self._gone(stream)

    def _end(self, stream: _Stream, problem: TransportError) -> None:
        stream.fail(problem)
        self._gone(stream)

    def _gone(self, stream: _Stream) -> None:
        del self._streams[stream.id]
        if stream.unsent is not None:
            stream.unsent = None
            self._blocked = [other for other in self._blocked if other is not stream]
        if not self._streams:
            if self._draining:
                self._flush()
                self.abort(ConnectionLost("the server closes this connection"))
            else:
                self._pool.release(self)

    def _control(self, kind: int, flags: int, number: int, data: bytes) -> None:
        if kind == wire.WINDOW_UPDATE:
            self._widen(number, int.from_bytes(data, "big") & 0x7FFF_FFFF)
        elif kind == wire.PING:
            if flags & wire.ACK:
                self._pinged = _NEVER
            else:
                self._put(frame(wire.PING, wire.ACK, 0, data))
        elif kind == wire.SETTINGS:
            if not flags & wire.ACK:
                self._configure(data)
                self._put(frame(wire.SETTINGS, wire.ACK, 0, b""))
                self._push()  # only now: until they hear of it, servers may hold clients to the old windows
        elif kind == wire.RST_STREAM:
            self._broken_off(number, int.from_bytes(data, "big"))
        elif kind == wire.GOAWAY:
            self._leaving(int.from_bytes(data[:4], "big") & 0x7FFF_FFFF, int.from_bytes(data[4:8], "big"))
        elif kind == wire.CONTINUATION:
            self._continued(number, flags, data)
        elif kind == wire.PUSH_PROMISE:
            raise ValueError("a push, which was not allowed")

    def _broken_off(self, number: int, code: int) -> None:
        if (stream := self._streams.get(number)) is not None:
            self._end(stream, _refused(stream.what, code, before=number < self._blind))
        else:
            self._never_opened(number)

    def _continued(self, number: int, flags: int, data: bytes) -> None:
        if self._head is None or self._head[0] != number:
            raise ValueError("a continuation of nothing")
        _, before, block = self._head
        block += data
        if len(block) > _LONGEST_HEAD:
            raise ValueError(f"the headers are longer than {_LONGEST_HEAD} bytes")
        self._head = (number, before, block)
        if flags & wire.END_HEADERS:
            self._head = None
            self._headers(number, (before | wire.END_HEADERS) & ~(wire.PADDED | wire.PRIORITY), block)

    def _widen(self, number: int, size: int) -> None:
        if number == 0:
            self._room += size
        elif (stream := self._streams.get(number)) is not None:
            stream.window += size
        else:
            self._never_opened(number)
        if self._blocked:
            self._push()

    def _configure(self, data: bytes) -> None:
        if len(data) % 6:
            raise ValueError("half a setting")
        self._blind = self._next
        for at in range(0, len(data), 6):
            key, value = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 6], "big")
            if key == 0x3:
                self.most = value
            elif key == 0x4:
                for stream in self._blocked:
                    stream.window += value - self._start_room
                self._start_room = value

    def _leaving(self, last: int, code: int) -> None:
        """The server goes: what it has not begun may be asked elsewhere, the rest it still answers (RFC 9113 §6.8)."""
        self._draining = True
        why = wire.error_name(code)
        for stream in [stream for stream in self._streams.values() if stream.id > last]:
            self._end(stream, NotBegun(f"{stream.what}: the server goes away ({why}) and has not begun with this"))
        if not self._streams:
            self.abort(ConnectionLost(f"the server goes away ({why})"))

    # Time.

    def _wake_at(self, when: float) -> None:
        """One timer for all streams; it looks who is due."""
        when = min(when, self.now() + _PING_AFTER)
        if self._timer is not None:
            self._timer.cancel()
        self._deadline = when
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer, self._deadline = None, _NEVER
        now = self.now()
        for stream in [stream for stream in self._streams.values() if stream.deadline <= now]:
            self._put(frame(wire.RST_STREAM, 0, stream.id, wire.CANCEL.to_bytes(4, "big")))
            self._end(stream, TransportTimeout(f"{stream.what}: no answer in time"))
        if not self._streams or self._transport is None:
            return
        if self._heard >= self._pinged:  # not the answer perhaps, but a sign of life
            self._pinged = _NEVER
        if self._pinged + _PING_LIMIT <= now:
            self.abort(ConnectionLost(f"the connection broke: a ping was not answered within {_PING_LIMIT:g} s"))
            return
        if self._heard + _PING_AFTER <= now and self._pinged == _NEVER:
            self._pinged = now
            self._put(frame(wire.PING, 0, 0, bytes(8)))
        asked = self._pinged + _PING_LIMIT if self._pinged != _NEVER else self._heard + _PING_AFTER
        self._wake_at(min([asked, *(stream.deadline for stream in self._streams.values())]))


def _unpadded(data: bytes) -> bytes:
    """What a padded frame holds (RFC 9113 §6.1). Raises ValueError where it is all padding and more."""
    if data[0] >= len(data):
        raise ValueError("more padding than frame")
    return data[1 : len(data) - data[0]]


def _refused(what: str, code: int, *, before: bool) -> TransportError:
    if code == wire.REFUSED_STREAM:  # RFC 9113 §8.7: nothing has been done
        # Before the server had said how many it allows, it may have been one too many.
        return (NotBegun if before else ConnectError)(f"{what}: the server has refused to begin with this")
    return ConnectionLost(f"{what}: the server broke off: {wire.error_name(code)}")


def _said(problem: TransportError, what: str) -> TransportError:
    """The same problem, told of one request."""
    return type(problem)(f"{what}: {problem}")
