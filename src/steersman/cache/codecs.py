"""Compression of records with zstd and dictionaries that are trained on the cached objects.

Objects of one cluster share keys and many values. A dictionary of 32 KiB shrinks them three to six times, where zstd
without a dictionary gains little. A codec has a number and never changes. Each record names its codec, so it stays
readable after a new dictionary is trained. This module does no I/O and starts no threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import zstandard

__all__ = ["PLAIN", "Codec", "Codecs"]

PLAIN: Final = 0
"""The number of the codec that does not compress."""
_WITHOUT_DICTIONARY: Final = 1
"""The number of the codec that compresses without a dictionary."""

ZSTD_LEVEL: Final = 1
"""With a dictionary, level 3 saves four percent more bytes and takes a third more time."""
MIN_MATCH_BYTES: Final = 7
"""The shortest match. The level's default of 6 saves no more bytes and takes up to six percent more time."""
DICTIONARY_BYTES: Final = 32 * 1024
TRAINER_SEGMENT_BYTES: Final = 2048
"""Bytes of one segment of a sample. By default the trainer tries four lengths, which takes three times as long and
gives no better dictionary for API objects."""
TRAINER_TABLE_BITS: Final = 16
"""Bits of the trainer's table. With the default of 20, nine tenths of the time go into clearing memory."""
TRAINER_ACCELERATION: Final = 2
"""The trainer reads every second position: a fifth less time for an equally good dictionary."""
LARGE_OBJECT_BYTES: Final = 16 * 1024
"""Objects of at least this size compress as well without a dictionary."""
MIN_TRAINING_SAMPLES: Final = 16
"""The fewest samples that a dictionary can be trained on."""
REVIEW_AFTER_BYTES: Final = 2 * 1024 * 1024
"""Bytes after which the ratio of a dictionary is compared with its ratio at training."""
MAX_RATIO_TO_REPLACE: Final = 0.85
"""A new dictionary replaces another only if its output is at most this fraction of the other's."""
MAX_DICTIONARIES: Final = 64
"""The most dictionaries of one cache; each holds about 200 KB after it has been used in both directions."""

_Pack: TypeAlias = Callable[[bytes], bytes]


class Codec:
    """One way to encode records.

    `raw` and `packed` are the bytes of input and output since the last review. `trained_ratio` is output to input on
    the samples of the training.
    """

    __slots__ = ("_alone", "number", "pack", "packed", "raw", "trained", "trained_ratio")

    def __init__(self, number: int, pack: _Pack | None, alone: _Pack) -> None:
        self.number = number
        self.raw = 0
        self.packed = 0
        self.pack = pack
        """Compresses a body that is not large; `None` does not compress."""
        self._alone = alone
        self.trained = pack is not None
        """Whether the codec has a dictionary."""
        self.trained_ratio = 1.0

    def encode(self, body: bytes) -> tuple[int, bytes]:
        """Return the number of the codec that encoded `body`, and the encoded bytes."""
        if len(body) >= LARGE_OBJECT_BYTES:
            return _WITHOUT_DICTIONARY, self._alone(body)
        return self.number, self.small(body)

    def small(self, body: bytes) -> bytes:
        """Encode a body that is not large, with this codec."""
        self.raw += len(body)
        if (pack := self.pack) is None:
            return body
        packed = pack(body)
        self.packed += len(packed)
        return packed

    def ratio(self, bodies: Sequence[bytes]) -> float:
        """Return output to input for such objects."""
        pack = self.pack
        if pack is None:
            return 1.0
        return sum(len(pack(body)) for body in bodies) / max(1, sum(map(len, bodies)))

    def outdated(self) -> bool:
        """Return whether the recent ratio is so much worse than at training that a new dictionary pays."""
        if self.raw < REVIEW_AFTER_BYTES:
            return False
        ratio = self.packed / self.raw
        self.raw = self.packed = 0
        if ratio <= 1.5 * self.trained_ratio:
            return False
        self.trained_ratio = ratio  # if no better dictionary is found, this is the ratio to expect
        return True


class Codecs:
    """All codecs of a cache, oldest first."""

    def __init__(self) -> None:
        self._alone = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False).compress
        self._decompress = [None, zstandard.ZstdDecompressor().decompress]
        self.plain = Codec(PLAIN, None, self._alone)
        """The first codec: it compresses only large objects."""

    def __len__(self) -> int:
        """The number of dictionaries."""
        return len(self._decompress) - 2

    def decode(self, codec: int, payload: bytes) -> bytes:
        """Return the JSON that `encode` received."""
        return payload if codec == PLAIN else self._decompress[codec](payload)  # type: ignore[misc]

    def train(self, samples: Sequence[bytes], than: Codec | None = None, holdout: Sequence[bytes] = ()) -> Codec | None:
        """Return a codec with a dictionary trained on `samples`, or `None` if it would not help.

        It is `None` with too few samples, with `MAX_DICTIONARIES` codecs, or if `than` is nearly as good on `holdout`
        (or on the samples, if `holdout` is empty). Large objects are left out. Takes a few milliseconds.
        """
        samples = [sample for sample in samples if len(sample) < LARGE_OBJECT_BYTES]
        if len(self) >= MAX_DICTIONARIES or len(samples) < MIN_TRAINING_SAMPLES:
            return None
        try:
            data = zstandard.train_dictionary(
                DICTIONARY_BYTES,
                [*samples],
                k=TRAINER_SEGMENT_BYTES,
                d=8,
                f=TRAINER_TABLE_BITS,
                accel=TRAINER_ACCELERATION,
                level=ZSTD_LEVEL,
            )
        except zstandard.ZstdError:
            data = zstandard.ZstdCompressionDict(b"".join(samples)[-DICTIONARY_BYTES:])
        # Each would cost four bytes: the record already names its dictionary, and memory needs no checksum.
        how = zstandard.ZstdCompressionParameters.from_level(  # pyright: ignore[reportUnknownMemberType]
            ZSTD_LEVEL,
            dict_size=DICTIONARY_BYTES,
            min_match=MIN_MATCH_BYTES,
            write_dict_id=False,
            write_checksum=False,
        )
        data.precompute_compress(compression_params=how)  # pyright: ignore[reportUnknownMemberType]
        pack = zstandard.ZstdCompressor(compression_params=how, dict_data=data).compress
        some = samples[:: max(1, len(samples) // 64)]
        codec = Codec(len(self._decompress), pack, self._alone)
        codec.trained_ratio = codec.ratio(some)
        if than is not None:
            holdout = holdout or some
            if codec.ratio(holdout) > MAX_RATIO_TO_REPLACE * than.ratio(holdout):
                return None
        self._decompress.append(zstandard.ZstdDecompressor(dict_data=data).decompress)
        return codec
