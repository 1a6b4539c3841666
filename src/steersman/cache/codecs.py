"""Compression of objects: plain at first, then zstd with a dictionary trained on objects like them.

Objects of one cluster repeat each other's keys and many values, so a dictionary of 32 KiB shrinks them three to six
times where plain zstd hardly helps. Codecs are numbered and never change once made: a record names the one that wrote
it, and stays readable however often a dictionary is trained anew. Nothing here does I/O or starts threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import zstandard

__all__ = ["PLAIN", "Codec", "Codecs"]

PLAIN: Final = 0
"""The codec that leaves bytes as they are."""
_ALONE: Final = 1
"""The codec without a dictionary."""

LEVEL: Final = 1
"""With a dictionary, level 3 saves four percent more of the bytes and takes a third more time."""
MATCH: Final = 7
"""Bytes that are worth a reference: the level's own six saves no more, and takes up to six percent more time."""
DICTIONARY: Final = 32 * 1024
SEGMENT: Final = 2048
"""Bytes that the trainer takes from a sample at a time. Left to itself it tries four lengths, takes three times as
long, and on objects of the API ends no better."""
TABLE: Final = 16
"""Bits of the trainer's table. Its own choice, 20, spends nine tenths of the time on clearing memory."""
HASTE: Final = 2
"""Every other position of the samples is looked at: a fifth of the time less, and no worse a dictionary."""
LARGE: Final = 16 * 1024
"""Objects above this find in themselves what a dictionary could give them."""
LEAST: Final = 16
"""Objects that a dictionary can be learnt from."""
WINDOW: Final = 2 * 1024 * 1024
"""Bytes after which to look whether a dictionary still does what it promised."""
WORTHWHILE: Final = 0.85
"""What must remain of the bytes at most, for a dictionary to take another's place."""
MOST: Final = 64
"""Dictionaries in the life of a cache; each keeps about 200 KB once it has been used in both directions."""

_Pack: TypeAlias = Callable[[bytes], bytes]


class Codec:
    """One way to write records.

    `raw` and `packed` are the bytes that it was lately given and what it made of them, `promised` is the ratio of the
    two on what it was trained on.
    """

    __slots__ = ("_alone", "number", "pack", "packed", "promised", "raw", "trained")

    def __init__(self, number: int, pack: _Pack | None, alone: _Pack) -> None:
        self.number = number
        self.raw = 0
        self.packed = 0
        self.pack = pack
        """What compresses a body that is not large; `None` leaves all as they are."""
        self._alone = alone
        self.trained = pack is not None
        """Whether there is a dictionary behind it."""
        self.promised = 1.0

    def encode(self, body: bytes) -> tuple[int, bytes]:
        """The number of the codec that `body` is for, and what that makes of it."""
        if len(body) >= LARGE:
            return _ALONE, self._alone(body)
        return self.number, self.small(body)

    def small(self, body: bytes) -> bytes:
        """What it makes of a body that is not large; `number` is the codec for that."""
        self.raw += len(body)
        if (pack := self.pack) is None:
            return body
        packed = pack(body)
        self.packed += len(packed)
        return packed

    def ratio(self, bodies: Sequence[bytes]) -> float:
        """What part of their size remains of such objects."""
        pack = self.pack
        if pack is None:
            return 1.0
        return sum(len(pack(body)) for body in bodies) / max(1, sum(map(len, bodies)))

    def outdated(self) -> bool:
        """Whether the last megabytes compressed so much worse than promised that training anew would pay."""
        if self.raw < WINDOW:
            return False
        ratio = self.packed / self.raw
        self.raw = self.packed = 0
        if ratio <= 1.5 * self.promised:
            return False
        self.promised = ratio  # should none be better, then this is what is to be expected of such objects
        return True


class Codecs:
    """All codecs of a cache, oldest first."""

    def __init__(self) -> None:
        self._alone = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False).compress
        self._decompress = [None, zstandard.ZstdDecompressor().decompress]
        self.untaught = Codec(PLAIN, None, self._alone)
        """The one to begin with: only what is large is compressed."""

    def __len__(self) -> int:
        """How many dictionaries there are."""
        return len(self._decompress) - 2

    def decode(self, codec: int, payload: bytes) -> bytes:
        """The JSON that `encode` was given."""
        return payload if codec == PLAIN else self._decompress[codec](payload)  # type: ignore[misc]

    def learn(self, samples: Sequence[bytes], than: Codec | None = None, judges: Sequence[bytes] = ()) -> Codec | None:
        """A codec with a dictionary made of `samples`; `None` when there are enough of them, or samples are few.

        With `than`, also `None` where that one does nearly as well with `judges`, or with the samples where there are
        none. Large objects are left out. Takes a few milliseconds.
        """
        samples = [sample for sample in samples if len(sample) < LARGE]
        if len(self) >= MOST or len(samples) < LEAST:
            return None
        try:
            data = zstandard.train_dictionary(DICTIONARY, [*samples], k=SEGMENT, d=8, f=TABLE, accel=HASTE, level=LEVEL)
        except zstandard.ZstdError:
            data = zstandard.ZstdCompressionDict(b"".join(samples)[-DICTIONARY:])
        # Four bytes each: the record already says which dictionary it needs, and one corrupt copy of a cache entry
        # is not what a checksum of a process's own memory is for.
        how = zstandard.ZstdCompressionParameters.from_level(  # pyright: ignore[reportUnknownMemberType]
            LEVEL,
            dict_size=DICTIONARY,
            min_match=MATCH,
            write_dict_id=False,
            write_checksum=False,
        )
        data.precompute_compress(compression_params=how)  # pyright: ignore[reportUnknownMemberType]
        pack = zstandard.ZstdCompressor(compression_params=how, dict_data=data).compress
        some = samples[:: max(1, len(samples) // 64)]
        codec = Codec(len(self._decompress), pack, self._alone)
        codec.promised = codec.ratio(some)
        if than is not None:
            judges = judges or some
            if codec.ratio(judges) > WORTHWHILE * than.ratio(judges):
                return None
        self._decompress.append(zstandard.ZstdDecompressor(dict_data=data).decompress)
        return codec
