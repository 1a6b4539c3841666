"""Cutting a byte stream into lines, as watches and logs need it (rule W8).

On `\\n` only: U+0085 and U+2028 are legal inside JSON strings, and what Python calls a line would cut there. Bytes that
have been looked at are not looked at again, so that an object of 3 MB in small chunks costs no more than its size.
"""

from __future__ import annotations

from steersman.client.errors import ResponseError

__all__ = ["Lines"]

_LONGEST = 64 << 20


class Lines:
    """Feed chunks, get complete lines without their `\\n`. Empty lines are left out."""

    __slots__ = ("_longest", "_parts", "_size")

    def __init__(self, longest: int = _LONGEST) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. Raises `ResponseError` for a line that never ends (64 MB)."""
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
        # `find` looks with memchr; `bytes.split` at byte after byte, which takes longer than all else that is done.
        while start <= end:
            stop = chunk.find(b"\n", start)
            if stop > start:
                lines.append(chunk[start:stop])
            start = stop + 1
        return lines

    def rest(self) -> bytes:
        """What stands after the last `\\n`: empty where a stream ended in order."""
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._longest:
            raise ResponseError(f"a line of more than {self._longest} bytes: this is not an answer of an API server")
