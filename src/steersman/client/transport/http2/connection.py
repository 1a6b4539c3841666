"""One HTTP/2 connection of the native transport (RFC 9113), which carries all requests and watches of a client.

The requests of one pass of the event loop leave in one TLS record and one system call, and the responses and watch
events that arrive together are read in one system call. A stream whose reader is slow blocks only itself.

The client does not use server push, priorities or dynamic header tables. An unexpected frame closes the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.errors import ConnectError, ConnectionLostError, TransportError
from steersman.client.transport.base import RequestHeaders, Response
from steersman.client.transport.connection import Pool
from steersman.client.transport.http2.frames import (
    ACK,
    CANCEL,
    GOAWAY,
    PING,
    PREFACE,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING_RANGES,
    SETTINGS,
    WINDOW_UPDATE,
    error_name,
    frame,
    number_frame,
)
from steersman.client.transport.http2.header_blocks import Http2Encoder
from steersman.client.transport.http2.receiver import (
    CONNECTION_WINDOW_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BLOCK_BYTES,
    FrameReceiver,
)
from steersman.client.transport.http2.stream import NO_DEADLINE, STREAM_WINDOW_BYTES, RequestNotSentError, Stream
from steersman.client.transport.http2.timeouts import StreamTimeouts
from steersman.client.transport.tls import TlsLayer

__all__ = ["DEFAULT_MAX_STREAMS", "Http2Connection"]

DEFAULT_MAX_STREAMS: Final = 100
"""Streams at a time until the server announces its limit; kube-apiserver's default is 100."""
_MAX_PAUSE_SECONDS: Final = 0.005
"""The socket is read again after this time in any case, because the server may have sent a PING."""
_LAST_STREAM: Final = 1 << 30
_SETTINGS: Final = {0x1: 0, 0x2: 0, 0x4: STREAM_WINDOW_BYTES, 0x5: MAX_FRAME_BYTES, 0x6: MAX_HEADER_BLOCK_BYTES}
"""HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE."""


class ReadPause:
    """Pauses reading of the socket while no stream waits for data.

    kube-apiserver sends each object of a watch's initial events, and each event, in a frame and a TLS record of its
    own. The reader of a watch pauses from time to time so that several events arrive together (`cache.stream_reader`);
    with this pause they collect in the kernel and do not wake the process one by one. `begin` pauses reading and sets
    `timer`; a stream that starts to wait calls `end`.
    """

    __slots__ = ("_loop", "_transport", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Pause reading for at most `_MAX_PAUSE_SECONDS`."""
        if self.timer is None:
            self._transport.pause_reading()
            self.timer = self._loop.call_later(_MAX_PAUSE_SECONDS, self.end)

    def end(self) -> None:
        """Resume reading."""
        self.stop()
        self._transport.resume_reading()

    def stop(self) -> None:
        """Cancel the timer of a closed connection."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Http2Connection(FrameReceiver):
    """One connection with many requests at a time; each `Stream` is one request."""

    __slots__ = ("_draining", "_encode", "_future", "_limit_valid_from", "_pause", "limit", "max_streams", "timeouts")

    def __init__(
        self,
        pool: Pool,
        generation: int,
        transport: asyncio.Transport,
        tls: TlsLayer | None,
        encoder: Http2Encoder,
        max_streams: int = DEFAULT_MAX_STREAMS,
    ) -> None:
        super().__init__(pool, generation, transport, tls)
        self._encode = encoder.encode
        self._future = self._loop.create_future
        self._limit_valid_from = (
            _LAST_STREAM  # lower stream IDs were used before the server announced its current limit
        )
        self._draining = False
        self._pause = ReadPause(self._loop, transport)
        self.max_streams = max_streams  # the limit of streams that the server announced
        self.limit = max_streams  # the limit that applies now: 0 while the connection accepts no requests
        self.timeouts = StreamTimeouts(self, self._loop)

    # Methods for the pool.

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        return self._transport is None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent now."""
        return len(self.streams) < self.limit

    @property
    def busy(self) -> bool:
        """Whether any request is in flight."""
        return bool(self.streams)

    def send_request(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        """Send a request; see `Connection.send_request`."""
        stream = self._start(method, where, headers, body, timeout)
        response = stream.response = self._future()
        return response

    def cancel_request(self, response: asyncio.Future[Response]) -> None:
        """Cancel the stream of a response."""
        for stream in self.streams.values():
            if stream.response is response:
                self.leave(stream, "cancelled")
                return

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Stream:
        """Send a request and wait for the response headers."""
        stream = self._start(method, where, headers, body, timeout)
        head = stream.head = self._future()
        try:
            await head
        except asyncio.CancelledError:
            self.leave(stream, "cancelled")
            raise
        finally:
            stream.head = None
        stream.deadline = NO_DEADLINE
        return stream

    def drain(self) -> None:
        """Accept no more requests, and close when the last one has ended."""
        self._refuse_requests()
        if not self.streams:
            self.abort(ConnectionLostError("the connection is not used any more"))

    def _refuse_requests(self) -> None:
        self._draining, self.limit = True, 0

    def _start(self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float) -> Stream:
        """Send a request on a new stream."""
        block = self._encode(method, where, headers, body)
        number, timeouts = self.next, self.timeouts
        deadline = self.now() + timeout
        stream = Stream(self, number, method, where, deadline)
        if self._transport is None:
            raise _with_label(self._problem or ConnectionLostError("the connection broke"), stream.label)
        self.next = number + 2
        if self._pause.timer is not None:
            self._pause.end()
        if number >= _LAST_STREAM:
            self._refuse_requests()
        self.streams[number] = stream
        if deadline < timeouts.due:
            timeouts.schedule(deadline)
        self.put_request(stream, block, body)
        return stream

    # Methods for streams.

    def waiter(self) -> asyncio.Future[bool]:
        """Return a future for a reader, and resume reading of the socket."""
        if self._pause.timer is not None:
            self._pause.end()
        return self._future()

    def leave(self, stream: Stream, why: str) -> None:
        """Cancel a stream, unless it has ended."""
        if self.streams.get(stream.id) is stream:
            self.put(number_frame(RST_STREAM, stream.id, CANCEL))
            self.end(stream, ConnectionLostError(f"{stream.label}: {why}"))

    # Methods for the connection base class.

    def begin(self) -> None:
        """Send the connection preface, the settings and the connection's window."""
        settings = b"".join([key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in _SETTINGS.items()])
        room = number_frame(WINDOW_UPDATE, 0, CONNECTION_WINDOW_BYTES - 65_535)
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings) + room)

    def ended(self) -> None:
        """Close after the server closed the connection."""
        self.abort(ConnectionLostError("the connection broke: closed by the server"))

    def fail(self, problem: TransportError) -> None:
        """Fail all streams."""
        self.limit = 0
        streams, self.streams = self.streams, {}
        self._blocked.clear()
        for stream in streams.values():
            stream.fail(_with_label(problem, stream.label))
        self.timeouts.stop()
        self._pause.stop()

    def unread(self) -> None:
        """Stop reading of the socket for a while if no stream waits for data."""
        for stream in self.streams.values():
            if stream.reader is not None or stream.response is not None or stream.head is not None:
                return
        self._pause.begin()

    def idle(self) -> None:
        """Return the connection to the pool, or close it after a GOAWAY."""
        if self._draining:
            self.flush()
            self.abort(ConnectionLostError("the server closes this connection"))
        else:
            self._pool.release(self)

    # Control frames.

    def control(self, kind: int, flags: int, number: int, data: bytes) -> None:
        """Handle a frame that carries no part of a response."""
        if kind == WINDOW_UPDATE:
            self._window_update(number, int.from_bytes(data, "big") & 0x7FFF_FFFF)
        elif kind == PING:
            if flags & ACK:
                self.timeouts.ping_acknowledged()
            else:
                self.put(frame(PING, ACK, 0, data))
        elif kind == SETTINGS:
            if not flags & ACK:
                self._configure(data)
            elif data:
                raise ValueError("a SETTINGS acknowledgement has a payload")
        elif kind == RST_STREAM:
            self._stream_reset(number, int.from_bytes(data, "big"))
        elif kind == GOAWAY:
            self._goaway(int.from_bytes(data[:4], "big") & 0x7FFF_FFFF, int.from_bytes(data[4:8], "big"))
        elif kind == PUSH_PROMISE:
            raise ValueError("the server sent a PUSH_PROMISE, but push is disabled")

    def _window_update(self, number: int, size: int) -> None:
        stream = self.streams.get(number)
        if stream is None and number:
            self.never_opened(number)
            if not size:
                raise ValueError("a WINDOW_UPDATE with an increment of 0")
        else:
            self.add_window(stream, size)

    def _stream_reset(self, number: int, code: int) -> None:
        if (stream := self.streams.get(number)) is not None:
            self.end(stream, _reset_error(stream.label, code, before=number < self._limit_valid_from))
        else:
            self.never_opened(number)

    def _configure(self, data: bytes) -> None:
        if len(data) % 6:
            raise ValueError("the length of a SETTINGS frame is not a multiple of 6")
        self._limit_valid_from = self.next
        for at in range(0, len(data), 6):
            key, value = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 6], "big")
            minimum, maximum = SETTING_RANGES.get(key, (0, value))
            if not minimum <= value <= maximum:
                raise ValueError(f"the setting {key} has the invalid value {value}")
            if key == 0x3:
                self.max_streams = value
                self.limit = 0 if self._draining else value
            elif key == 0x4:
                self.resize(value)
        self.put(frame(SETTINGS, ACK, 0, b""))
        self.resume()  # after the acknowledgement: until then, a server may apply the old window sizes

    def _goaway(self, last: int, code: int) -> None:
        """Handle GOAWAY: streams after `last` were not processed and may be retried (RFC 9113 section 6.8)."""
        self._refuse_requests()
        why = error_name(code)
        for stream in [stream for stream in self.streams.values() if stream.id > last]:
            self.end(
                stream,
                RequestNotSentError(f"{stream.label}: the server sent GOAWAY ({why}) before it processed the request"),
            )
        if not self.streams:
            self.abort(ConnectionLostError(f"the server sent GOAWAY ({why})"))


def _reset_error(label: str, code: int, *, before: bool) -> TransportError:
    if code == REFUSED_STREAM:  # RFC 9113 section 8.7: the request was not processed
        # Before the server announced its limit, the stream may have exceeded it.
        return (RequestNotSentError if before else ConnectError)(f"{label}: the server refused to process the request")
    return ConnectionLostError(f"{label}: the server reset the stream: {error_name(code)}")


def _with_label(problem: TransportError, label: str) -> TransportError:
    """Return the same error with the request in its message."""
    return type(problem)(f"{label}: {problem}")
