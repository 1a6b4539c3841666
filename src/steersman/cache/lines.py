"""Splits the bytes of a watch stream into lines, without interpreting them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Final, TypeAlias, cast

__all__ = ["LONG_LINE_BYTES", "OBJECT_LINE_END", "Line", "LineSplitter", "LongLine", "MalformedStreamError"]

LONG_LINE_BYTES: Final = 8 * 1024
"""Lines of at least this size stay in the pieces in which they arrived, until they are needed as a whole."""
OBJECT_LINE_END: Final = b"}}\n"
"""The end of a line with an object."""
_NEWLINE: Final = b"\n"


class MalformedStreamError(ValueError):
    """The bytes are not JSON of the expected structure, so the rest of the stream or page is unusable."""


class LineSplitter:
    r"""Splits chunks into lines at `\n` only (W8): U+0085, U+2028 and `\r` are ordinary characters of JSON strings.

    A line has at most `limit` bytes. The chunks of a long line are joined once, when its end arrives.
    """

    __slots__ = ("_held", "_limit", "_parts")

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self._parts: list[bytes | memoryview] = []
        self._held = 0
        self._limit = limit

    def feed(self, chunk: bytes) -> Sequence[Line]:
        """Return the lines that `chunk` completes, with their newlines and without blank lines."""
        first = chunk.find(_NEWLINE)
        if first < 0:
            self._held += len(chunk)
            if self._held > self._limit:
                raise MalformedStreamError(f"a line of the watch stream is longer than {self._limit} bytes")
            self._parts.append(chunk)
            return []
        if self._held + first >= LONG_LINE_BYTES:
            return self._long(chunk)
        # A file finds newlines with memchr; `bytes.split` compares byte by byte, which took longer than all later
        # processing of a long line.
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
        """Split a chunk whose first line is long and stays in pieces."""
        lines: list[Line] = []
        parts, view, at = self._parts, memoryview(chunk), 0
        while end := chunk.find(_NEWLINE, at) + 1:
            parts.append(view[at:end])
            if len(parts) > 1 and end - at >= len(OBJECT_LINE_END):
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
    """A line in the pieces in which it arrived; they are joined where the whole line is needed."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.pieces = pieces
        """At least two: the end of a chunk, whole chunks, and at least the last three bytes of the line."""
        self._size = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def endswith(self, end: bytes) -> bool:
        """Return whether the line ends with `end`, of at most three bytes."""
        return bytes(self.pieces[-1][-len(end) :]) == end

    def started(self) -> tuple[bytes, int, Sequence[bytes | memoryview]]:
        """Return bytes that hold the first `LONG_LINE_BYTES` of the line, its offset in them, and the other pieces."""
        first, *rest = self.pieces
        if len(first) < LONG_LINE_BYTES:
            return b"".join((first, rest[0])), 0, rest[1:]
        whole = first if isinstance(first, bytes) else cast("bytes", first.obj)
        return whole, len(whole) - len(first), rest


Line: TypeAlias = bytes | LongLine
"""A line of a watch stream, with its newline."""
