"""One HTTP/2 connection of the native transport (RFC 9113): all requests and watches of a client side by side.

What it saves is the crossing of borders: the requests that a pass of the loop makes leave in one record and one system
call, and the answers and events that have come meanwhile arrive in one. A reader that does not read holds up its own
stream only.

What it never does: push, priorities, dynamic header tables. A connection on which anything unexpected arrives is
closed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.errors import ConnectError, ConnectionLost, TransportError
from steersman.client.transport.base import RequestHeaders, Response
from steersman.client.transport.http2.blocks import Http2Encoder
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
from steersman.client.transport.http2.patience import Patience
from steersman.client.transport.http2.pause import Pause
from steersman.client.transport.http2.receiving import CONNECTION_WINDOW, LONGEST_HEAD, LONGEST_TAKEN, Receiving
from steersman.client.transport.http2.stream import NEVER, STREAM_WINDOW, RequestNotSentError, Stream
from steersman.client.transport.tls import TlsLayer
from steersman.client.transport.wire import Pool

__all__ = ["MOST_STREAMS", "Http2Connection"]

MOST_STREAMS: Final = 100
"""Until the server says what it allows; kube-apiserver allows 100 by default."""
_LAST_STREAM: Final = 1 << 30
_SETTINGS: Final = {0x1: 0, 0x2: 0, 0x4: STREAM_WINDOW, 0x5: LONGEST_TAKEN, 0x6: LONGEST_HEAD}
"""HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE."""


class Http2Connection(Receiving):
    """One connection with many exchanges at a time; each `Stream` is one of them."""

    __slots__ = ("_blind", "_draining", "_encode", "_future", "_pause", "limit", "most", "patience")

    def __init__(
        self,
        pool: Pool,
        generation: int,
        transport: asyncio.Transport,
        tls: TlsLayer | None,
        encoder: Http2Encoder,
        most: int = MOST_STREAMS,
    ) -> None:
        super().__init__(pool, generation, transport, tls)
        self._encode = encoder.encode
        self._future = self._loop.create_future
        self._blind = _LAST_STREAM  # streams below it were begun before the server last said what it allows
        self._draining = False
        self._pause = Pause(self._loop, transport)
        self.most = most  # streams at a time
        self.limit = most  # the same, and 0 when it takes no more
        self.patience = Patience(self, self._loop)

    # What the pool does.

    @property
    def lost(self) -> bool:
        """Whether it is gone."""
        return self._transport is None

    @property
    def usable(self) -> bool:
        return len(self.streams) < self.limit

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return bool(self.streams)

    def ask(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> asyncio.Future[Response]:
        stream = self._start(method, where, headers, body, timeout)
        answer = stream.answer = self._future()
        return answer

    def unask(self, answer: asyncio.Future[Response]) -> None:
        for stream in self.streams.values():
            if stream.answer is answer:
                self.leave(stream, "cancelled")
                return

    async def open(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float
    ) -> Stream:
        stream = self._start(method, where, headers, body, timeout)
        head = stream.head = self._future()
        try:
            await head
        except asyncio.CancelledError:
            self.leave(stream, "cancelled")
            raise
        finally:
            stream.head = None
        stream.deadline = NEVER
        return stream

    def drain(self) -> None:
        """Take no more requests; closes when the last one has ended."""
        self._take_no_more()
        if not self.streams:
            self.abort(ConnectionLost("the connection is not used any more"))

    def _take_no_more(self) -> None:
        self._draining, self.limit = True, 0

    def _start(self, method: str, where: str, headers: RequestHeaders, body: bytes | None, timeout: float) -> Stream:
        """Send a request under a number of its own."""
        block = self._encode(method, where, headers, body)
        number, patience = self.next, self.patience
        deadline = self.now() + timeout
        stream = Stream(self, number, method, where, deadline)
        if self._transport is None:
            raise _said(self._problem or ConnectionLost("the connection broke"), stream.what)
        self.next = number + 2
        if self._pause.timer is not None:
            self._pause.end()
        if number >= _LAST_STREAM:
            self._take_no_more()
        self.streams[number] = stream
        if deadline < patience.due:
            patience.wake_at(deadline)
        self.put_request(stream, block, body)
        return stream

    # What a stream says.

    def waiter(self) -> asyncio.Future[bool]:
        if self._pause.timer is not None:
            self._pause.end()
        return self._future()

    def leave(self, stream: Stream, why: str) -> None:
        """Nobody waits for it any more. Once it has ended, this is nothing."""
        if self.streams.get(stream.id) is stream:
            self.put(number_frame(RST_STREAM, stream.id, CANCEL))
            self.end(stream, ConnectionLost(f"{stream.what}: {why}"))

    # What the wire says.

    def begin(self) -> None:
        settings = b"".join([key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in _SETTINGS.items()])
        room = number_frame(WINDOW_UPDATE, 0, CONNECTION_WINDOW - 65_535)
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings) + room)

    def ended(self) -> None:
        self.abort(ConnectionLost("the connection broke: closed by the server"))

    def fail(self, problem: TransportError) -> None:
        self.limit = 0
        streams, self.streams = self.streams, {}
        self._blocked.clear()
        for stream in streams.values():
            stream.fail(_said(problem, stream.what))
        self.patience.stop()
        self._pause.stop()

    def unread(self) -> None:
        for stream in self.streams.values():
            if stream.reader is not None or stream.answer is not None or stream.head is not None:
                return
        self._pause.begin()

    def idle(self) -> None:
        if self._draining:
            self.flush()
            self.abort(ConnectionLost("the server closes this connection"))
        else:
            self._pool.release(self)

    # Frames that bring nothing of a response.

    def control(self, kind: int, flags: int, number: int, data: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._widened(number, int.from_bytes(data, "big") & 0x7FFF_FFFF)
        elif kind == PING:
            if flags & ACK:
                self.patience.answered()
            else:
                self.put(frame(PING, ACK, 0, data))
        elif kind == SETTINGS:
            if not flags & ACK:
                self._configure(data)
            elif data:
                raise ValueError("an acknowledgement of settings with settings")
        elif kind == RST_STREAM:
            self._broken_off(number, int.from_bytes(data, "big"))
        elif kind == GOAWAY:
            self._leaving(int.from_bytes(data[:4], "big") & 0x7FFF_FFFF, int.from_bytes(data[4:8], "big"))
        elif kind == PUSH_PROMISE:
            raise ValueError("a push, which was not allowed")

    def _widened(self, number: int, size: int) -> None:
        stream = self.streams.get(number)
        if stream is None and number:
            self.never_opened(number)
            if not size:
                raise ValueError("a window update of no bytes")
        else:
            self.widen(stream, size)

    def _broken_off(self, number: int, code: int) -> None:
        if (stream := self.streams.get(number)) is not None:
            self.end(stream, _refused(stream.what, code, before=number < self._blind))
        else:
            self.never_opened(number)

    def _configure(self, data: bytes) -> None:
        if len(data) % 6:
            raise ValueError("half a setting")
        self._blind = self.next
        for at in range(0, len(data), 6):
            key, value = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 6], "big")
            least, most = SETTING_RANGES.get(key, (0, value))
            if not least <= value <= most:
                raise ValueError(f"the setting {key} with the value {value}")
            if key == 0x3:
                self.most = value
                self.limit = 0 if self._draining else value
            elif key == 0x4:
                self.resize(value)
        self.put(frame(SETTINGS, ACK, 0, b""))
        self.resume()  # only now: until they hear of it, servers may hold clients to the old windows

    def _leaving(self, last: int, code: int) -> None:
        """The server goes: what it has not begun may be asked elsewhere, the rest it still answers (RFC 9113 §6.8)."""
        self._take_no_more()
        why = error_name(code)
        for stream in [stream for stream in self.streams.values() if stream.id > last]:
            self.end(
                stream, RequestNotSentError(f"{stream.what}: the server goes away ({why}) and has not begun with this")
            )
        if not self.streams:
            self.abort(ConnectionLost(f"the server goes away ({why})"))


def _refused(what: str, code: int, *, before: bool) -> TransportError:
    if code == REFUSED_STREAM:  # RFC 9113 §8.7: nothing has been done
        # Before the server had said how many it allows, it may have been one too many.
        return (RequestNotSentError if before else ConnectError)(f"{what}: the server has refused to begin with this")
    return ConnectionLost(f"{what}: the server broke off: {error_name(code)}")


def _said(problem: TransportError, what: str) -> TransportError:
    """The same problem, told of one request."""
    return type(problem)(f"{what}: {problem}")
