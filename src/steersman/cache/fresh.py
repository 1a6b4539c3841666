"""Records that are new and not compressed yet: what has just changed is likely to be read, or to change again, soon.

An update that is followed by its reconcile and by the echo of a status write would otherwise be packed, unpacked and
packed again. So new records stay plain for some seconds, as far as memory allows, and those that are current by then
are packed in one go.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["Fresh"]

MOST: Final = 16 * 1024 * 1024
"""Bytes of one store that may stay plain; beyond, the oldest are packed at once."""


class Fresh:
    """The plain records of one store, oldest first. `pack` makes the compressed record of a plain one."""

    __slots__ = ("_bytes", "_pack", "_records")

    def __init__(self, pack: Callable[[bytes], bytes]) -> None:
        self._pack = pack
        self._records: deque[tuple[dict[str, bytes], str, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, names: dict[str, bytes], name: str, record: bytes) -> int:
        """`names[name]` is now `record`, which is plain. Returns by how many bytes older records shrank."""
        self._records.append((names, name, record))
        self._bytes += len(record)
        saved = 0
        while self._bytes > MOST:
            saved += self._settle()
        return saved

    def settle(self, most: int, size: int = sys.maxsize) -> int:
        """Pack up to `most` of the oldest, or as many as have `size` bytes; returns by how many bytes they shrank."""
        saved = 0
        left = max(0, self._bytes - size)
        while most > 0 and self._records and self._bytes > left:
            saved += self._settle()
            most -= 1
        return saved

    def clear(self) -> None:
        """Forget them all: nobody looks at them any more."""
        self._records.clear()
        self._bytes = 0

    def _settle(self) -> int:
        names, name, record = self._records.popleft()
        self._bytes -= len(record)
        if names.get(name) is not record:
            return 0  # changed or gone since: nothing to do, which is what was waited for
        packed = names[name] = self._pack(record)
        return len(record) - len(packed)
