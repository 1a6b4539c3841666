"""The receiving half of an HTTP/2 connection: parses frames and passes headers and body pieces to the streams.

A small response consists of one HEADERS and one DATA frame, which have a fast path. Pieces of long DATA frames are
passed on as they arrive. A protocol error or a flood of control frames closes the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.errors import ConnectionLostError, TransportError
from steersman.client.transport.base import Response
from steersman.client.transport.connection import Pool
from steersman.client.transport.http2.frames import (
    CANCEL,
    CONNECTION_FRAMES,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FIXED_PAYLOAD_BYTES,
    FRAME_HEAD,
    GOAWAY,
    GOAWAY_MIN_BYTES,
    HEADERS,
    NO_ERROR,
    PADDED,
    PRIORITY,
    PROTOCOL_ERROR,
    RST_STREAM,
    STREAM_FRAMES,
    WINDOW_UPDATE,
    block_of,
    goaway,
    number_frame,
    unpadded,
)
from steersman.client.transport.http2.header_blocks import INDEXED_STATUSES, length_matches, status_of
from steersman.client.transport.http2.limits import FloodError, FloodGuard
from steersman.client.transport.http2.sender import FrameSender
from steersman.client.transport.http2.stream import STREAM_WINDOW_BYTES, BlockHeaders, Stream
from steersman.client.transport.tls import TlsLayer

__all__ = ["CONNECTION_WINDOW_BYTES", "MAX_FRAME_BYTES", "MAX_HEADER_BLOCK_BYTES", "FrameReceiver"]

CONNECTION_WINDOW_BYTES: Final = 1 << 30
MAX_FRAME_BYTES: Final = 1 << 20
"""The MAX_FRAME_SIZE of the client. Pieces are passed on as they arrive, and few long frames cost least."""
MAX_HEADER_BLOCK_BYTES: Final = 512 * 1024
MAX_BODY_BYTES: Final = 1 << 30
"""Limit of a response that is kept as a whole; streams have no such limit."""
_BODILESS: Final = frozenset({204, 304})
_unpack = FRAME_HEAD.unpack_from


class FrameReceiver(FrameSender):
    """Parses frames and completes the streams' responses."""

    __slots__ = (
        "_arrived",
        "_flood_guard",
        "_head",
        "_head_size",
        "_open",
        "_rest",
        "last_received",
        "max_body_bytes",
        "next",
        "streams",
    )

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        super().__init__(pool, generation, transport, tls)
        self.streams: dict[int, Stream] = {}
        self.next = 1
        self.last_received = self.now()
        self._rest = b""
        self._open: tuple[int, int, int] = (0, 0, 0)  # a DATA frame that has begun: stream, flags, bytes to come
        self._head: tuple[int, int, list[bytes]] | None = None  # a header block that CONTINUATION frames complete
        self._head_size = 0
        self.max_body_bytes = MAX_BODY_BYTES
        self._arrived = 0
        self._flood_guard = FloodGuard()

    # Methods of the connection.

    def control(self, kind: int, flags: int, number: int, data: bytes) -> None:
        """Handle a frame that carries no part of a response."""
        raise NotImplementedError

    def idle(self) -> None:
        """Handle the end of the last stream."""
        raise NotImplementedError

    def unread(self) -> None:
        """Handle a piece of a body that no task waits for at present."""
        raise NotImplementedError

    # Frames.

    def received(self, data: bytes) -> None:  # noqa: C901 - the hot path is one loop
        """Parse received bytes."""
        self.last_received = self.now()
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
                    raise ValueError("a frame of another type interrupted a header block")
                if at > end:
                    if size > MAX_FRAME_BYTES:
                        raise ValueError(f"a frame of {size} bytes exceeds MAX_FRAME_SIZE")
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
                    self._another(kind, flags, number, data[start:at])
        except (ValueError, IndexError, KeyError) as problem:
            flood = isinstance(problem, FloodError)
            self.send(goaway(ENHANCE_YOUR_CALM if flood else PROTOCOL_ERROR))
            why = str(problem) if flood else f"the response is not valid HTTP/2: {problem}"
            self.abort(ConnectionLostError(why))
            return
        if at < end:
            self._rest = data[at:]

    def _whole(self, number: int, block: bytes, body: bytes) -> None:
        """Handle the headers and the whole body of a small response."""
        stream = self.streams.get(number)
        status = INDEXED_STATUSES.get(block[0])
        size = len(body)
        if stream is None or status is None or stream.response is None or stream.status or stream.unsent is not None:
            self._headers(number, END_HEADERS, block)
            self._data(number, END_STREAM, body)
        elif not length_matches(block, size):
            stream.status, stream.block = status, block
            self._data(number, END_STREAM, body)
        else:
            self._arrived += size
            self._flood_guard.overhead_frames = 0
            if not stream.response.done():
                stream.response.set_result(Response(status, BlockHeaders(block), body))
            del self.streams[number]
            if not self.streams:
                self.idle()

    def _data(self, number: int, flags: int, data: bytes) -> None:
        size = len(data)
        self._arrived += size
        if self._arrived > CONNECTION_WINDOW_BYTES >> 1:
            self.put(number_frame(WINDOW_UPDATE, 0, self._arrived))
            self._arrived = 0
        stream = self.streams.get(number)
        if stream is None:
            self.never_opened(number)
            if flags & PADDED:
                unpadded(data)
            if not size:
                self._flood_guard.count(self.last_received)
            return
        if not stream.status:
            raise ValueError("a DATA frame before the response headers")
        if flags == END_STREAM and stream.body is None:
            self._completed(stream, data)
        else:
            self._piece(stream, flags, data)

    def _piece(self, stream: Stream, flags: int, data: bytes) -> None:
        size = len(data)
        if flags & PADDED:
            data = unpadded(data)
        if data:
            self._flood_guard.overhead_frames = 0
            stream.total += len(data)
            if stream.body is None:
                stream.body = [data]
            else:
                stream.body.append(data)
        if flags & END_STREAM:
            self._completed(stream, b"")
            return
        if not data:
            self._flood_guard.count(self.last_received)
        stream.arrived += size
        if stream.reader is not None:
            stream.wake()
        elif stream.response is not None:
            self._response_piece(stream)
        elif stream.arrived > STREAM_WINDOW_BYTES:
            raise ValueError("the server exceeded the flow-control window of a stream")
        else:
            self.unread()

    def _response_piece(self, stream: Stream) -> None:
        """Enlarge the window of a response that is kept as a whole, up to the limit."""
        if stream.total > self.max_body_bytes:
            self.put(number_frame(RST_STREAM, stream.id, CANCEL))
            self.end(
                stream, ConnectionLostError(f"{stream.label}: the response is longer than {self.max_body_bytes} bytes")
            )
        elif stream.arrived > STREAM_WINDOW_BYTES >> 1:
            self.enlarge_window(stream)

    def _headers(self, number: int, flags: int, block: bytes) -> None:
        if flags != END_HEADERS:
            block = block_of(flags, block)
            if not flags & END_HEADERS:
                if not number:
                    raise ValueError("a HEADERS frame for stream 0")
                self._head, self._head_size = (number, flags, [block]), len(block)
                return
        stream = self.streams.get(number)
        if stream is None:
            self.never_opened(number)
            self._flood_guard.count(self.last_received)
            return
        if not stream.status:
            self._begun(stream, flags, block)
        elif not flags & END_STREAM:
            raise ValueError("a second HEADERS frame without END_STREAM")
        if flags & END_STREAM:
            self._completed(stream, b"")

    def _begun(self, stream: Stream, flags: int, block: bytes) -> None:
        status = INDEXED_STATUSES.get(block[0]) or status_of(block)
        if status < 200:  # an interim response (RFC 9110 section 15.2): the final response follows
            if flags & END_STREAM:
                raise ValueError("an interim response with END_STREAM")
            self._flood_guard.count(self.last_received)
            return
        stream.status = status
        stream.block = block
        if stream.head is not None and not stream.head.done():
            stream.head.set_result(None)

    def _another(self, kind: int, flags: int, number: int, data: bytes) -> None:
        size = len(data)
        if size != FIXED_PAYLOAD_BYTES.get(kind, size) or (kind == GOAWAY and size < GOAWAY_MIN_BYTES):
            raise ValueError(f"a frame of type {kind} with {size} bytes")
        if kind in (CONNECTION_FRAMES if number else STREAM_FRAMES):
            raise ValueError(f"a frame of type {kind} for stream {number}")
        if kind == CONTINUATION:
            self._continued(number, flags, data)
            return
        if kind == WINDOW_UPDATE and self.due_updates > 0:
            self.due_updates -= 1
        elif not (kind == RST_STREAM and number in self.streams):
            self._flood_guard.count(self.last_received)
        self.control(kind, flags, number, data)

    def _continued(self, number: int, flags: int, data: bytes) -> None:
        if self._head is None or self._head[0] != number:
            raise ValueError("a CONTINUATION frame without a HEADERS frame")
        if not data:
            self._flood_guard.count(self.last_received)
        _, before, parts = self._head
        parts.append(data)
        self._head_size += len(data)
        if self._head_size > MAX_HEADER_BLOCK_BYTES:
            raise ValueError(f"the headers are longer than {MAX_HEADER_BLOCK_BYTES} bytes")
        if flags & END_HEADERS:
            self._head = None
            self._headers(number, (before | END_HEADERS) & ~(PADDED | PRIORITY), b"".join(parts))

    def never_opened(self, number: int) -> None:
        """Raise ValueError for a frame of a stream that was never opened; late frames of closed streams are valid."""
        if number >= self.next or not number & 1:
            raise ValueError(f"a frame for stream {number}, which was never opened")

    # Streams.

    def _completed(self, stream: Stream, last: bytes) -> None:
        """Complete a response with the last piece of its body."""
        block, response = stream.block, stream.response
        if last and response is None:
            stream.body = [last]
        if not length_matches(block, stream.total + len(last)) and not _has_no_body(stream):
            self.put(number_frame(RST_STREAM, stream.id, PROTOCOL_ERROR))
            self.end(
                stream,
                ConnectionLostError(f"{stream.label}: the length of the body differs from the content-length header"),
            )
            return
        self._flood_guard.overhead_frames = 0
        stream.complete = True
        if response is None:
            stream.wake()
        elif not response.done():
            body = last if stream.body is None else stream.take()
            response.set_result(Response(stream.status, BlockHeaders(block), body))
        if stream.unsent is not None:  # the server responded before it received the whole request
            self.put(number_frame(RST_STREAM, stream.id, NO_ERROR))
            self.forget_unsent(stream)
        streams = self.streams
        del streams[stream.id]
        if not streams:
            self.idle()

    def end(self, stream: Stream, problem: TransportError) -> None:
        """End a stream whose response will not be complete."""
        stream.fail(problem)
        del self.streams[stream.id]
        if stream.unsent is not None:
            self.forget_unsent(stream)
        if not self.streams:
            self.idle()


def _has_no_body(stream: Stream) -> bool:
    """Return whether the response has a content-length but no body (RFC 9110 section 8.6)."""
    return (stream.method == "HEAD" or stream.status in _BODILESS) and not stream.total
