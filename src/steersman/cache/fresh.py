"""Records that are new and not compressed yet: what has just changed is likely to be read, or to change again, soon.

An update that is followed by its reconcile and by the echo of a status write would otherwise be packed, unpacked and
packed again. So new records stay plain for some seconds, as far as memory allows, and those that are current by then
are packed in one go. Of an object only the latest record is held.

For large objects this puts work off until after the sync, it does not save it: for some seconds a cache takes what it
would always take without compression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Final

from steersman.models import Key

__all__ = ["Fresh", "Plain"]

MOST: Final = 64 * 1024 * 1024
"""Bytes of one cache that may stay plain; beyond, the oldest of the store that grows are packed at once."""
AT_ONCE: Final = (64, 64 * 1024)
"""Records and bytes that are packed then, so that what comes next need not look again."""


class Plain:
    """How many bytes are plain in all stores of a cache.

    At most `most` may be; beyond, `at_once` records of so many bytes are packed.
    """

    __slots__ = ("at_once", "bytes", "most")

    def __init__(self, most: int = MOST, at_once: tuple[int, int] = AT_ONCE) -> None:
        self.most = most
        self.at_once = at_once
        self.bytes = 0


class Fresh:
    """The plain records of one store, oldest first. `pack` makes the compressed record of a plain one."""

    __slots__ = ("_pack", "_plain", "_records", "_turn", "bytes")

    def __init__(self, pack: Callable[[bytes], bytes], plain: Plain | None = None) -> None:
        self._pack = pack
        self._plain = plain or Plain()
        self._records: dict[Key, tuple[dict[str, bytes], bytes, int]] = {}
        self.bytes = 0
        """Bytes of all of them."""
        self._turn = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, key: Key, names: dict[str, bytes], record: bytes) -> int:
        """`names[key.name]` is now `record`, which is plain. Returns by how many bytes older records shrank."""
        held = self._records
        older = held.pop(key, None)
        size = len(record) if older is None else len(record) - len(older[1])
        held[key] = (names, record, self._turn)
        self.bytes += size
        plain = self._plain
        plain.bytes += size
        saved = 0
        while plain.bytes > plain.most and held:
            saved += self.settle(*plain.at_once)
        return saved

    def until_now(self) -> int:
        """What `settle` takes as `turn`, for the records that have come so far."""
        self._turn += 1
        return self._turn - 1

    def forget(self, key: Key) -> None:
        """The object is gone."""
        older = self._records.pop(key, None)
        if older is not None:
            self._less(len(older[1]))

    def settle(self, most: int, size: int = sys.maxsize, turn: int = sys.maxsize) -> int:
        """Pack the oldest: up to `most`, or as many as have `size` bytes, and none that came after `turn`.

        Returns by how many bytes they shrank.
        """
        held, saved = self._records, 0
        left = max(0, self.bytes - size)
        # Where a dictionary begins has to be searched for, so it is asked once for all that are due.
        for key, (names, record, came) in list(islice(held.items(), most)):
            if came > turn or self.bytes <= left:
                break
            del held[key]
            self._less(len(record))
            if names.get(key[1]) is record:  # else packed or gone since: nothing to do
                packed = names[key[1]] = self._pack(record)
                saved += len(record) - len(packed)
        return saved

    def clear(self) -> None:
        """Forget them all: nobody looks at them any more."""
        self._records.clear()
        self._less(self.bytes)

    def _less(self, size: int) -> None:
        self.bytes -= size
        self._plain.bytes -= size

    def __del__(self) -> None:
        self._plain.bytes -= self.bytes  # of an informer that was dropped
