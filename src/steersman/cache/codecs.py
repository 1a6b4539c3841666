"""Compression of one kind's objects: plain at first, then zstd with a dictionary trained on the kind itself.

Objects of one kind repeat each other's keys and most values, so a dictionary of 32 KiB shrinks them three to six
times where plain zstd hardly helps. Codecs are numbered and never change once made: a record names the one that wrote
it, and stays readable however often the dictionary is trained anew. Nothing here does I/O or starts threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import zstandard

__all__ = ["PLAIN", "RETHINK", "Codecs"]

PLAIN: Final = 0
"""The codec that leaves bytes as they are."""
_ZSTD: Final = 1

LEVEL: Final = 1
"""With a dictionary, level 3 saves two percent more of the bytes and takes a sixth more time."""
DICTIONARY: Final = 32 * 1024
SEGMENT: Final = 2048
"""Bytes that the trainer takes from a sample at a time. Left to itself it tries four lengths, takes three times as
long, and on objects of the API ends no better."""
LARGE: Final = 16 * 1024
"""Objects above this compress well enough by themselves before there is a dictionary."""
LEAST: Final = 16
"""Objects that a dictionary can be learnt from."""
RETHINK: Final = 4 * 1024 * 1024
"""Bytes after which to look whether the dictionary still does what it promised."""
MOST: Final = 8
"""Dictionaries trained in the life of a store; each keeps about 150 KiB."""


class Codecs:
    """The codecs of one store, oldest first."""

    def __init__(self) -> None:
        plain = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
        self._compress = [None, plain.compress]
        self._decompress = [None, zstandard.ZstdDecompressor().decompress]
        self._current = PLAIN
        self._pack: Callable[[bytes], bytes] | None = None
        self.raw = 0
        self.packed = 0
        self._promised = 1.0

    @property
    def trained(self) -> bool:
        """Whether there is a dictionary yet."""
        return self._current > _ZSTD

    def encode(self, body: bytes) -> tuple[int, bytes]:
        """The best codec for `body`, and what it makes of it."""
        pack = self._pack
        if pack is None:
            return (PLAIN, body) if len(body) < LARGE else (_ZSTD, self._compress[_ZSTD](body))  # type: ignore[misc]
        packed = pack(body)
        self.raw += len(body)
        self.packed += len(packed)
        return self._current, packed

    def decode(self, codec: int, payload: bytes) -> bytes:
        """The JSON that `encode` was given."""
        return payload if codec == PLAIN else self._decompress[codec](payload)  # type: ignore[misc]

    def train(self, samples: Sequence[bytes]) -> bool:
        """Make a dictionary of `samples` and use it from now on; false when there are enough, or samples are few.

        Objects above `LARGE` are left out: they find in themselves what a dictionary could give them.

        Takes about 8 ms for 150 objects of 1 KB and 12 ms for as many of 5 KB.
        """
        samples = [sample for sample in samples if len(sample) <= LARGE]
        if len(self._compress) >= MOST + 2 or len(samples) < LEAST:
            return False
        try:
            data = zstandard.train_dictionary(DICTIONARY, [bytes(s) for s in samples], k=SEGMENT, d=8)
        except zstandard.ZstdError:
            data = zstandard.ZstdCompressionDict(b"".join(samples)[-DICTIONARY:])
        data.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
        # Four bytes each: the record already says which dictionary it needs, and one corrupt copy of a cache entry
        # is not what a checksum of a process's own memory is for.
        self._compress.append(
            zstandard.ZstdCompressor(level=LEVEL, dict_data=data, write_dict_id=False, write_checksum=False).compress
        )
        self._decompress.append(zstandard.ZstdDecompressor(dict_data=data).decompress)
        self._current = len(self._compress) - 1
        self._pack = self._compress[-1]
        taught = [len(self._pack(s)) for s in samples[:64]]  # type: ignore[misc]
        self._promised = sum(taught) / max(1, sum(map(len, samples[:64])))
        self.raw = self.packed = 0
        return True

    def outdated(self) -> bool:
        """Whether the last megabytes compressed so much worse than promised that training anew would pay."""
        if self.raw < RETHINK:
            return False
        worse = self.packed > 1.5 * self._promised * self.raw
        self.raw = self.packed = 0
        return worse and len(self._compress) < MOST + 2
