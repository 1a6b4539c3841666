"""The half of an HTTP/2 connection that receives: bytes become frames, and frames whole answers or pieces of bodies.

A small answer is one HEADERS and one DATA frame, and takes the shortest way. Long frames are handed on as they come.
Anything that no server should send ends the connection, and so does a server that keeps a client busy for nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.errors import ConnectionLost, TransportError
from steersman.client.transport.base import Response
from steersman.client.transport.http2.blocks import STATUSES, agrees, status_of
from steersman.client.transport.http2.calm import Calm, FloodError
from steersman.client.transport.http2.frames import (
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_HEAD,
    GOAWAY,
    GOAWAY_MIN_BYTES,
    HEADERS,
    NO_ERROR,
    OF_CONNECTION,
    OF_STREAM,
    PADDED,
    PRIORITY,
    PROTOCOL_ERROR,
    RST_STREAM,
    SIZES,
    WINDOW_UPDATE,
    block_of,
    goaway,
    number_frame,
    unpadded,
)
from steersman.client.transport.http2.headers import BlockHeaders
from steersman.client.transport.http2.sending import Sending
from steersman.client.transport.http2.stream import STREAM_WINDOW, Stream
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Pool

__all__ = ["CONNECTION_WINDOW", "LONGEST_HEAD", "LONGEST_TAKEN", "Receiving"]

CONNECTION_WINDOW: Final = 1 << 30
LONGEST_TAKEN: Final = 1 << 20
"""What servers may send: the frames of a list are handed on as they come, so that few and long ones cost least."""
LONGEST_HEAD: Final = 512 * 1024
LONGEST_BODY: Final = 1 << 30
"""Bytes of an answer that is kept whole; streams have no such limit."""
_BODILESS: Final = frozenset({204, 304})
_unpack = FRAME_HEAD.unpack_from


class Receiving(Sending):
    """Reads frames, and completes streams with what they bring."""

    __slots__ = (
        "_arrived",
        "_calm",
        "_head",
        "_head_size",
        "_open",
        "_rest",
        "heard",
        "longest_body",
        "next",
        "streams",
    )

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        super().__init__(pool, generation, transport, tls)
        self.streams: dict[int, Stream] = {}
        self.next = 1
        self.heard = self.now()
        self._rest = b""
        self._open: tuple[int, int, int] = (0, 0, 0)  # a DATA frame that has begun: stream, flags, bytes to come
        self._head: tuple[int, int, list[bytes]] | None = None  # a header block of which more frames must come
        self._head_size = 0
        self.longest_body = LONGEST_BODY
        self._arrived = 0
        self._calm = Calm()

    # What the connection says.

    def control(self, kind: int, flags: int, number: int, data: bytes) -> None:
        """A frame that is about streams, or about the connection, but brings nothing of a response."""
        raise NotImplementedError

    def idle(self) -> None:
        """The last stream has ended."""
        raise NotImplementedError

    def unread(self) -> None:
        """A piece of a body has come that nobody waits for now."""
        raise NotImplementedError

    # Frames.

    def received(self, data: bytes) -> None:  # noqa: C901 - the hot path is one loop
        self.heard = self.now()
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at, end = 0, len(data)
        try:
            if self._open[2]:
                number, flags, left = self._open
                at = min(left, end)
                self._open = (number, flags, left - at)
                self._data(number, flags if at == left else 0, data[:at])
            while end - at >= 9:
                high, low, kind, flags, number = _unpack(data, at)
                size = high << 16 | low
                number &= 0x7FFF_FFFF
                start = at + 9
                at = start + size
                if self._head is not None and kind != CONTINUATION:
                    raise ValueError("a header block broke off")
                if at > end:
                    if size > LONGEST_TAKEN:
                        raise ValueError(f"a frame of {size} bytes")
                    if kind == DATA and not flags & PADDED:
                        self._open = (number, flags, at - end)
                        if start < end:
                            self._data(number, 0, data[start:])
                        return
                    at = start - 9
                    break
                if kind == DATA:
                    self._data(number, flags, data[start:at])
                elif kind == HEADERS:
                    if flags == END_HEADERS and end - at > 9:
                        high, low, kind, flags, other = _unpack(data, at)
                        body = at + 9
                        stop = body + (high << 16 | low)
                        if flags == END_STREAM and other == number and kind == DATA and stop <= end:
                            self._whole(number, data[start:at], data[body:stop])
                            at = stop
                            continue
                        flags = END_HEADERS
                    self._headers(number, flags, data[start:at])
                else:
                    self._other(kind, flags, number, data[start:at])
        except (ValueError, IndexError, KeyError) as problem:
            flood = isinstance(problem, FloodError)
            self.send(goaway(ENHANCE_YOUR_CALM if flood else PROTOCOL_ERROR))
            why = str(problem) if flood else f"the answer is no HTTP/2: {problem}"
            self.abort(ConnectionLost(why))
            return
        if at < end:
            self._rest = data[at:]

    def _whole(self, number: int, block: bytes, body: bytes) -> None:
        """A head and the whole body, as small answers come."""
        stream = self.streams.get(number)
        status = STATUSES.get(block[0])
        size = len(body)
        if stream is None or status is None or stream.answer is None or stream.status or stream.unsent is not None:
            self._headers(number, END_HEADERS, block)
            self._data(number, END_STREAM, body)
        elif not agrees(block, size):
            stream.status, stream.block = status, block
            self._data(number, END_STREAM, body)
        else:
            self._arrived += size
            self._calm.times = 0
            if not stream.answer.done():
                stream.answer.set_result(Response(status, BlockHeaders(block), body))
            del self.streams[number]
            if not self.streams:
                self.idle()

    def _data(self, number: int, flags: int, data: bytes) -> None:
        size = len(data)
        self._arrived += size
        if self._arrived > CONNECTION_WINDOW >> 1:
            self.put(number_frame(WINDOW_UPDATE, 0, self._arrived))
            self._arrived = 0
        stream = self.streams.get(number)
        if stream is None:
            self.never_opened(number)
            if flags & PADDED:
                unpadded(data)
            if not size:
                self._calm.count(self.heard)
            return
        if not stream.status:
            raise ValueError("a body without a head")
        if flags == END_STREAM and stream.body is None:
            self._completed(stream, data)
        else:
            self._piece(stream, flags, data)

    def _piece(self, stream: Stream, flags: int, data: bytes) -> None:
        size = len(data)
        if flags & PADDED:
            data = unpadded(data)
        if data:
            self._calm.times = 0
            stream.total += len(data)
            if stream.body is None:
                stream.body = [data]
            else:
                stream.body.append(data)
        if flags & END_STREAM:
            self._completed(stream, b"")
            return
        if not data:
            self._calm.count(self.heard)
        stream.arrived += size
        if stream.reader is not None:
            stream.wake()
        elif stream.answer is not None:
            self._kept(stream)
        elif stream.arrived > STREAM_WINDOW:
            raise ValueError("more than was allowed to come")
        else:
            self.unread()

    def _kept(self, stream: Stream) -> None:
        """A piece of an answer that is kept until it is whole: give the server room for more, up to the limit."""
        if stream.total > self.longest_body:
            self.put(number_frame(RST_STREAM, stream.id, CANCEL))
            self.end(stream, ConnectionLost(f"{stream.what}: the answer is longer than {self.longest_body} bytes"))
        elif stream.arrived > STREAM_WINDOW >> 1:
            self.make_room(stream)

    def _headers(self, number: int, flags: int, block: bytes) -> None:
        if flags != END_HEADERS:
            block = block_of(flags, block)
            if not flags & END_HEADERS:
                if not number:
                    raise ValueError("a head for stream 0")
                self._head, self._head_size = (number, flags, [block]), len(block)
                return
        stream = self.streams.get(number)
        if stream is None:
            self.never_opened(number)
            self._calm.count(self.heard)
            return
        if not stream.status:
            self._begun(stream, flags, block)
        elif not flags & END_STREAM:
            raise ValueError("a second head")
        if flags & END_STREAM:
            self._completed(stream, b"")

    def _begun(self, stream: Stream, flags: int, block: bytes) -> None:
        status = STATUSES.get(block[0]) or status_of(block)
        if status < 200:  # an interim response (RFC 9110 §15.2): the real one follows
            if flags & END_STREAM:
                raise ValueError("a response that ends before it has begun")
            self._calm.count(self.heard)
            return
        stream.status = status
        stream.block = block
        if stream.head is not None and not stream.head.done():
            stream.head.set_result(None)

    def _other(self, kind: int, flags: int, number: int, data: bytes) -> None:
        size = len(data)
        if size != SIZES.get(kind, size) or (kind == GOAWAY and size < GOAWAY_MIN_BYTES):
            raise ValueError(f"a frame of type {kind} with {size} bytes")
        if kind in (OF_CONNECTION if number else OF_STREAM):
            raise ValueError(f"a frame of type {kind} for stream {number}")
        if kind == CONTINUATION:
            self._continued(number, flags, data)
            return
        if kind == WINDOW_UPDATE and self.due_updates > 0:
            self.due_updates -= 1
        elif not (kind == RST_STREAM and number in self.streams):
            self._calm.count(self.heard)
        self.control(kind, flags, number, data)

    def _continued(self, number: int, flags: int, data: bytes) -> None:
        if self._head is None or self._head[0] != number:
            raise ValueError("a continuation of nothing")
        if not data:
            self._calm.count(self.heard)
        _, before, parts = self._head
        parts.append(data)
        self._head_size += len(data)
        if self._head_size > LONGEST_HEAD:
            raise ValueError(f"the headers are longer than {LONGEST_HEAD} bytes")
        if flags & END_HEADERS:
            self._head = None
            self._headers(number, (before | END_HEADERS) & ~(PADDED | PRIORITY), b"".join(parts))

    def never_opened(self, number: int) -> None:
        """What comes for a stream that was left is late; for one that never was, it is an error."""
        if number >= self.next or not number & 1:
            raise ValueError(f"a frame for stream {number}, which was never opened")

    # Streams.

    def _completed(self, stream: Stream, last: bytes) -> None:
        """The response is complete, but for `last` it is in the stream."""
        block, answer = stream.block, stream.answer
        if last and answer is None:
            stream.body = [last]
        if not agrees(block, stream.total + len(last)) and not _says_nothing(stream):
            self.put(number_frame(RST_STREAM, stream.id, PROTOCOL_ERROR))
            self.end(stream, ConnectionLost(f"{stream.what}: the answer is not as long as its content-length says"))
            return
        self._calm.times = 0
        stream.complete = True
        if answer is None:
            stream.wake()
        elif not answer.done():
            body = last if stream.body is None else stream.take()
            answer.set_result(Response(stream.status, BlockHeaders(block), body))
        if stream.unsent is not None:  # the server has answered before it heard all
            self.put(number_frame(RST_STREAM, stream.id, NO_ERROR))
            self.forget_unsent(stream)
        streams = self.streams
        del streams[stream.id]
        if not streams:
            self.idle()

    def end(self, stream: Stream, problem: TransportError) -> None:
        """The response will not be complete."""
        stream.fail(problem)
        del self.streams[stream.id]
        if stream.unsent is not None:
            self.forget_unsent(stream)
        if not self.streams:
            self.idle()


def _says_nothing(stream: Stream) -> bool:
    """Whether the response has a length but no body (RFC 9110 §8.6)."""
    return (stream.method == "HEAD" or stream.status in _BODILESS) and not stream.total
