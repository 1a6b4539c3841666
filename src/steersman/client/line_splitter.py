r"""Splits a byte stream into lines, for watches and logs (rule W8).

Lines end at `\n` only: U+0085 and U+2028 are valid in JSON strings, but `bytes.splitlines` splits there. Bytes are
searched once, so that an object of 3 MB in small chunks costs no more than its size.
"""

from __future__ import annotations

from steersman.client.errors import ResponseError

__all__ = ["LineSplitter"]

_MAX_LINE_BYTES = 64 << 20


class LineSplitter:
    r"""`feed` takes chunks and returns complete lines without their `\n`. Empty lines are left out."""

    __slots__ = ("_longest", "_parts", "_size")

    def __init__(self, longest: int = _MAX_LINE_BYTES) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises `ResponseError` for a line of more than 64 MB."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        if self._parts:
            chunk = b"".join((*self._parts, chunk))
            end += self._size
            self._parts.clear()
            self._size = 0
        if end + 1 < len(chunk):
            self._keep(chunk[end + 1 :])
        lines: list[bytes] = []
        start = 0
        # `find` uses memchr; `bytes.split` compares byte by byte, which takes longer than the rest of this function.
        while start <= end:
            stop = chunk.find(b"\n", start)
            if stop > start:
                lines.append(chunk[start:stop])
            start = stop + 1
        return lines

    def rest(self) -> bytes:
        r"""Return the bytes after the last `\n`: empty if the stream ended with a complete line."""
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._longest:
            raise ResponseError(f"a line of more than {self._longest} bytes: the server is not an API server")
