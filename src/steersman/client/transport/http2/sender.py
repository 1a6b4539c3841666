"""The sending half of an HTTP/2 connection: batches frames and applies flow control.

Frames of one pass of the event loop are sent together at its end. A body is sent at once if the windows allow it
(RFC 9113 section 5.2); otherwise it waits and is sent in parts when the server enlarges the windows.
"""

from __future__ import annotations

import asyncio
from typing import Final

from steersman.client.transport.connection import Connection, Pool
from steersman.client.transport.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEADERS,
    WINDOW_UPDATE,
    frame,
    number_frame,
)
from steersman.client.transport.http2.stream import Stream
from steersman.client.transport.tls import TlsLayer

__all__ = ["DEFAULT_MAX_FRAME_BYTES", "FrameSender"]

DEFAULT_MAX_FRAME_BYTES: Final = 1 << 14
"""The frame size that every server accepts."""
_DEFAULT_WINDOW_BYTES: Final = 65_535
"""The window of the connection and of new streams until the server changes it (RFC 9113 section 6.9.2)."""
MAX_WINDOW_BYTES: Final = (1 << 31) - 1
"""RFC 9113 section 6.9.1."""
_UPDATES_PER_FRAME: Final = 16
"""WINDOW_UPDATE frames that a server may send for one DATA frame; Go sends at most eight for the longest frame."""
_pack = FRAME_HEAD.pack


class FrameSender(Connection):
    """Encodes requests as frames and sends them."""

    __slots__ = ("_blocked", "_connection_window", "_initial_window", "_out", "due_updates")

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        super().__init__(pool, generation, transport, tls)
        self._out: list[bytes] = []
        self._connection_window = self._initial_window = _DEFAULT_WINDOW_BYTES
        self._blocked: list[Stream] = []
        self.due_updates = 0
        """WINDOW_UPDATE frames that the server may still send for the DATA frames that it has received."""

    def put(self, data: bytes) -> None:
        """Send frames at the end of this pass of the event loop."""
        out = self._out
        if not out:
            self._loop.call_soon(self.flush)
        out.append(data)

    def flush(self) -> None:
        """Send the waiting frames now."""
        out = self._out
        if out:
            data = b"".join(out)
            out.clear()
            self.send(data)

    def enlarge_window(self, stream: Stream, waiting: int = 0) -> None:
        """Enlarge the window of a stream by the bytes that its reader has taken; `waiting` bytes are not yet taken."""
        self.put(number_frame(WINDOW_UPDATE, stream.id, stream.arrived - waiting))
        stream.arrived = waiting

    def put_request(self, stream: Stream, block: bytes, body: bytes | None) -> None:
        """Send a header block and the body, or the part of it that the windows allow."""
        out = self._out
        if not out:
            self._loop.call_soon(self.flush)
        length = len(block)
        if not body:
            if length <= DEFAULT_MAX_FRAME_BYTES:
                out += (_pack(0, length, HEADERS, END_HEADERS | END_STREAM, stream.id), block)
            else:
                self._put_long(stream.id, END_STREAM, block)
            return
        size = len(body)
        if length > DEFAULT_MAX_FRAME_BYTES:
            self._put_long(stream.id, 0, block)
        elif (
            size <= DEFAULT_MAX_FRAME_BYTES
            and size <= self._connection_window
            and size <= self._initial_window
            and not self._blocked
        ):
            self._connection_window -= size
            self.due_updates += _UPDATES_PER_FRAME
            number = stream.id
            out += (
                _pack(0, length, HEADERS, END_HEADERS, number),
                block,
                _pack(0, size, DATA, END_STREAM, number),
                body,
            )
            return
        else:
            out += (_pack(0, length, HEADERS, END_HEADERS, stream.id), block)
        stream.unsent = memoryview(body)
        stream.window = self._initial_window
        self._blocked.append(stream)
        self._send_waiting()

    def _put_long(self, number: int, flags: int, block: bytes) -> None:
        parts = [block[at : at + DEFAULT_MAX_FRAME_BYTES] for at in range(0, len(block), DEFAULT_MAX_FRAME_BYTES)]
        self.put(frame(HEADERS, flags, number, parts[0]))
        for part in parts[1:-1]:
            self.put(frame(CONTINUATION, 0, number, part))
        self.put(frame(CONTINUATION, END_HEADERS, number, parts[-1]))

    def _send_waiting(self) -> None:
        """Send the parts of waiting bodies that the windows allow."""
        waiting: list[Stream] = []
        for stream in self._blocked:
            rest = stream.unsent
            while (
                rest is not None
                and (size := min(len(rest), self._connection_window, stream.window, DEFAULT_MAX_FRAME_BYTES)) > 0
            ):
                self._connection_window -= size
                stream.window -= size
                self.due_updates += _UPDATES_PER_FRAME
                last = size == len(rest)
                self.put(frame(DATA, END_STREAM if last else 0, stream.id, bytes(rest[:size])))
                rest = stream.unsent = None if last else rest[size:]
            if rest is not None:
                waiting.append(stream)
        self._blocked = waiting

    # Flow control.

    def add_window(self, stream: Stream | None, size: int) -> None:
        """Enlarge the window of a stream, or of the connection. Raises ValueError for an invalid increment."""
        if not size:
            raise ValueError("a WINDOW_UPDATE with an increment of 0")
        if stream is None:
            self._connection_window += size
        else:
            stream.window += size
        if (self._connection_window if stream is None else stream.window) > MAX_WINDOW_BYTES:
            raise ValueError(f"a window of more than {MAX_WINDOW_BYTES} bytes")
        if self._blocked:
            self._send_waiting()

    def resize(self, size: int) -> None:
        """Set the initial window of streams, and change the windows of waiting streams by the difference."""
        if size > MAX_WINDOW_BYTES:
            raise ValueError(f"an initial window of {size} bytes")
        for stream in self._blocked:
            stream.window += size - self._initial_window
            if stream.window > MAX_WINDOW_BYTES:
                raise ValueError(f"a window of more than {MAX_WINDOW_BYTES} bytes")
        self._initial_window = size

    def resume(self) -> None:
        """Send waiting bodies, as far as the windows allow."""
        self._send_waiting()

    def forget_unsent(self, stream: Stream) -> None:
        """Drop the rest of a request body that will not be sent."""
        stream.unsent = None
        self._blocked = [other for other in self._blocked if other is not stream]
