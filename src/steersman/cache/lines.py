"""A watch stream's bytes, cut into lines. What is in the lines is no concern of this module."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Final, TypeAlias, cast

__all__ = ["END", "LONG", "Line", "LineSplitter", "LongLine", "MalformedStreamError"]

LONG: Final = 8 * 1024
"""Bytes of a line from which on it stays in the pieces that it came in, until somebody needs it whole."""
END: Final = b"}}\n"
"""How the line of an object ends."""
_NEWLINE: Final = b"\n"


class MalformedStreamError(ValueError):
    """Bytes that are no JSON of the expected frame: the stream or page cannot be trusted any further."""


class LineSplitter:
    """Cuts a stream of chunks into whole lines, on `\\n` and nothing else (W8).

    U+0085, U+2028 and `\\r` are ordinary characters inside JSON strings. A line may be as long as `limit` bytes;
    chunks of a long line are joined once, when its end arrives.
    """

    __slots__ = ("_held", "_limit", "_parts")

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self._parts: list[bytes | memoryview] = []
        self._held = 0
        self._limit = limit

    def feed(self, chunk: bytes) -> Sequence[Line]:
        """The lines that `chunk` completes, each with its newline; blank ones are left out."""
        first = chunk.find(_NEWLINE)
        if first < 0:
            self._held += len(chunk)
            if self._held > self._limit:
                raise MalformedStreamError(f"a line of the watch stream is longer than {self._limit} bytes")
            self._parts.append(chunk)
            return []
        if self._held + first >= LONG:
            return self._long(chunk)
        # A file looks for newlines with memchr; `bytes.split` looks at byte after byte, which took longer than all
        # that is done with a long line afterwards.
        lines = BytesIO(chunk).readlines()
        if self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        self._held = 0
        if not chunk.endswith(_NEWLINE):
            rest = lines.pop()
            self._held = len(rest)
            self._parts.append(rest)
        if _NEWLINE in lines:
            return [line for line in lines if line != _NEWLINE]
        return lines

    def _long(self, chunk: bytes) -> list[Line]:
        """The same where the first line is long: it stays in the pieces that it came in."""
        lines: list[Line] = []
        parts, view, at = self._parts, memoryview(chunk), 0
        while end := chunk.find(_NEWLINE, at) + 1:
            parts.append(view[at:end])
            if len(parts) > 1 and end - at >= len(END):
                lines.append(LongLine(parts))
                parts = []
            else:
                line = b"".join(parts)
                parts.clear()
                if line != _NEWLINE:
                    lines.append(line)
            at = end
        self._parts = parts
        self._held = len(chunk) - at
        if self._held:
            parts.append(view[at:])
        return lines


class LongLine:
    """A line in the pieces that it came in: it is put together where somebody needs it whole."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.pieces = pieces
        """Two at least: what a chunk ended with, whole chunks, and the line's last three bytes or more of another."""
        self._size = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def endswith(self, end: bytes) -> bool:
        """Whether the line ends with up to three such bytes."""
        return bytes(self.pieces[-1][-len(end) :]) == end

    def started(self) -> tuple[bytes, int, Sequence[bytes | memoryview]]:
        """Bytes that the line begins in, where in them it does, and its other pieces. `LONG` of it are in the first."""
        first, *rest = self.pieces
        if len(first) < LONG:
            return b"".join((first, rest[0])), 0, rest[1:]
        whole = first if isinstance(first, bytes) else cast("bytes", first.obj)
        return whole, len(whole) - len(first), rest


Line: TypeAlias = bytes | LongLine
"""A line of a watch stream, with its newline."""
