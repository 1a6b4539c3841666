"""New records that are not compressed yet, because an object that has just changed is likely to change again soon.

An update is followed by its reconcile and by the event of the status write, and would be compressed, decompressed and
compressed again. So new records stay uncompressed for some seconds, within a limit on memory. The records that are
still current by then are compressed together. Of each object only the latest record is held.

For large objects this delays the work until after the sync: for some seconds the cache takes as much memory as it
would without compression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Final

from steersman.models import Key

__all__ = ["UncompressedBytes", "UncompressedRecords"]

MAX_UNCOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Uncompressed bytes of one cache; above this, a growing store compresses its oldest records immediately."""
BATCH_MAX_RECORDS: Final = 64
BATCH_MAX_BYTES: Final = 64 * 1024
"""Records and bytes that are compressed then, so that the next record need not compress again."""


class UncompressedBytes:
    """The uncompressed bytes in all stores of a cache, and their limit.

    Above `limit`, up to `batch_records` records with up to `batch_bytes` bytes are compressed.
    """

    __slots__ = ("batch_bytes", "batch_records", "bytes", "limit")

    def __init__(
        self,
        limit: int = MAX_UNCOMPRESSED_BYTES,
        batch_records: int = BATCH_MAX_RECORDS,
        batch_bytes: int = BATCH_MAX_BYTES,
    ) -> None:
        self.limit = limit
        self.batch_records = batch_records
        self.batch_bytes = batch_bytes
        self.bytes = 0


class UncompressedRecords:
    """The uncompressed records of one store, oldest first; `pack` returns the compressed form of a record."""

    __slots__ = ("_batch", "_pack", "_plain", "_records", "bytes")

    def __init__(self, pack: Callable[[bytes], bytes], plain: UncompressedBytes | None = None) -> None:
        self._pack = pack
        self._plain = plain or UncompressedBytes()
        self._records: dict[Key, tuple[dict[str, bytes], bytes, int]] = {}
        self.bytes = 0
        """The bytes of these records."""
        self._batch = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, key: Key, names: dict[str, bytes], record: bytes) -> int:
        """Add `record`, which is `names[key.name]`; return the bytes that compressing older records saved."""
        held = self._records
        older = held.pop(key, None)
        size = len(record) if older is None else len(record) - len(older[1])
        held[key] = (names, record, self._batch)
        self.bytes += size
        plain = self._plain
        plain.bytes += size
        saved = 0
        while plain.bytes > plain.limit and held:
            saved += self.compress(plain.batch_records, plain.batch_bytes)
        return saved

    def current_batch(self) -> int:
        """End the current batch of records and return its number, for `compress`."""
        self._batch += 1
        return self._batch - 1

    def forget(self, key: Key) -> None:
        """Remove the record of a deleted object."""
        older = self._records.pop(key, None)
        if older is not None:
            self._less(len(older[1]))

    def compress(self, most: int, size: int = sys.maxsize, batch: int = sys.maxsize) -> int:
        """Compress the oldest records, at most `most` with `size` bytes, up to `batch`; return the bytes saved."""
        held, saved = self._records, 0
        left = max(0, self.bytes - size)
        # The first key of a dict is found by a search, so the keys of all due records are read at once.
        for key, (names, record, added_in) in list(islice(held.items(), most)):
            if added_in > batch or self.bytes <= left:
                break
            del held[key]
            self._less(len(record))
            if names.get(key[1]) is record:  # otherwise it was replaced or deleted since
                packed = names[key[1]] = self._pack(record)
                saved += len(record) - len(packed)
        return saved

    def clear(self) -> None:
        """Remove all records, because the content is dropped."""
        self._records.clear()
        self._less(self.bytes)

    def _less(self, size: int) -> None:
        self.bytes -= size
        self._plain.bytes -= size

    def __del__(self) -> None:
        self._plain.bytes -= self.bytes  # the informer was dropped
