"""The half of an HTTP/2 connection that sends: frames out, in as few records as passes of the loop, and flow control.

What one pass of the loop says leaves together at its end. Bodies go at once while the server has room for them
(RFC 9113 §5.2); else they wait, and are sent in pieces as room comes.
"""

from __future__ import annotations

import asyncio
from typing import Final

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
from steersman.client.transport.wire import Pool, Wire

__all__ = ["LONGEST_FRAME", "Sending"]

LONGEST_FRAME: Final = 1 << 14
"""What every server takes."""
_FIRST_ROOM: Final = 65_535
"""What a server takes on the connection, and on a new stream, until it says otherwise."""
MAX_WINDOW_BYTES: Final = (1 << 31) - 1
"""RFC 9113 §6.9.1."""
_UPDATES_PER_FRAME: Final = 16
"""WINDOW_UPDATE frames that a server may send for a DATA frame; Go's sends at most eight for the longest."""
_pack = FRAME_HEAD.pack


class Sending(Wire):
    """Puts requests into frames, and frames onto the wire."""

    __slots__ = ("_blocked", "_out", "_room", "_start_room", "due_updates")

    def __init__(self, pool: Pool, generation: int, transport: asyncio.Transport, tls: TlsLayer | None) -> None:
        super().__init__(pool, generation, transport, tls)
        self._out: list[bytes] = []
        self._room = self._start_room = _FIRST_ROOM
        self._blocked: list[Stream] = []
        self.due_updates = 0
        """WINDOW_UPDATE frames that the server may still send for DATA frames that it has received."""

    def put(self, data: bytes) -> None:
        """Send frames at the end of this pass of the loop."""
        out = self._out
        if not out:
            self._loop.call_soon(self.flush)
        out.append(data)

    def flush(self) -> None:
        """Send what there is now."""
        out = self._out
        if out:
            data = b"".join(out)
            out.clear()
            self.send(data)

    def make_room(self, stream: Stream, waiting: int = 0) -> None:
        """The server may send what has been read once more: all that has arrived, but for what still waits here."""
        self.put(number_frame(WINDOW_UPDATE, stream.id, stream.arrived - waiting))
        stream.arrived = waiting

    def put_request(self, stream: Stream, block: bytes, body: bytes | None) -> None:
        """Send a header block and the body, or as much of it as there is room for."""
        out = self._out
        if not out:
            self._loop.call_soon(self.flush)
        length = len(block)
        if not body:
            if length <= LONGEST_FRAME:
                out += (_pack(0, length, HEADERS, END_HEADERS | END_STREAM, stream.id), block)
            else:
                self._put_long(stream.id, END_STREAM, block)
            return
        size = len(body)
        if length > LONGEST_FRAME:
            self._put_long(stream.id, 0, block)
        elif size <= LONGEST_FRAME and size <= self._room and size <= self._start_room and not self._blocked:
            self._room -= size
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
        stream.window = self._start_room
        self._blocked.append(stream)
        self._push()

    def _put_long(self, number: int, flags: int, block: bytes) -> None:
        parts = [block[at : at + LONGEST_FRAME] for at in range(0, len(block), LONGEST_FRAME)]
        self.put(frame(HEADERS, flags, number, parts[0]))
        for part in parts[1:-1]:
            self.put(frame(CONTINUATION, 0, number, part))
        self.put(frame(CONTINUATION, END_HEADERS, number, parts[-1]))

    def _push(self) -> None:
        """Send of the bodies that wait what the server has room for."""
        waiting: list[Stream] = []
        for stream in self._blocked:
            rest = stream.unsent
            while rest is not None and (size := min(len(rest), self._room, stream.window, LONGEST_FRAME)) > 0:
                self._room -= size
                stream.window -= size
                self.due_updates += _UPDATES_PER_FRAME
                last = size == len(rest)
                self.put(frame(DATA, END_STREAM if last else 0, stream.id, bytes(rest[:size])))
                rest = stream.unsent = None if last else rest[size:]
            if rest is not None:
                waiting.append(stream)
        self._blocked = waiting

    # What the server says of its room.

    def widen(self, stream: Stream | None, size: int) -> None:
        """There is more room: on a stream, or on the connection."""
        if not size:
            raise ValueError("a window update of no bytes")
        if stream is None:
            self._room += size
        else:
            stream.window += size
        if (self._room if stream is None else stream.window) > MAX_WINDOW_BYTES:
            raise ValueError(f"a window of more than {MAX_WINDOW_BYTES} bytes")
        if self._blocked:
            self._push()

    def resize(self, size: int) -> None:
        """Streams have so much room at first; those that wait have as much more or less. `resume` afterwards."""
        if size > MAX_WINDOW_BYTES:
            raise ValueError(f"an initial window of {size} bytes")
        for stream in self._blocked:
            stream.window += size - self._start_room
            if stream.window > MAX_WINDOW_BYTES:
                raise ValueError(f"a window of more than {MAX_WINDOW_BYTES} bytes")
        self._start_room = size

    def resume(self) -> None:
        """Send what waits, where there is room for it now."""
        self._push()

    def forget_unsent(self, stream: Stream) -> None:
        """What has not been sent of its body never will be."""
        stream.unsent = None
        self._blocked = [other for other in self._blocked if other is not stream]
