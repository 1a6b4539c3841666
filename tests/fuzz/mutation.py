"""New inputs out of old ones: bytes changed, tokens put in, parts repeated, nested and spliced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LONGEST_BYTES = 256 * 1024
BRACKETS = ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b"- ", b""))
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


class Mutator:
    """Makes inputs of a pool; the same seed and pool make the same inputs."""

    def __init__(self, random: Random, pool: Sequence[bytes], tokens: Sequence[bytes]) -> None:
        self._random = random
        self._tokens = tokens
        self.pool = list(pool)
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self._flip, self._insert, self._remove, self._token, self._token, self._token, self._number,
            self._splice, self._move, self._repeat, self._nest,
        )  # fmt: skip

    def next(self) -> bytes:
        data = self._random.choice(self.pool)
        for _ in range(1 << self._random.randrange(4)):
            data = self._random.choice(self._ways)(data)[:LONGEST_BYTES]
        return data

    def _span(self, data: bytes) -> tuple[int, int]:
        start = self._random.randrange(len(data) + 1)
        return start, min(len(data), start + self._random.choice((1, 2, 4, 16, 64, 1024)))

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._random.randrange(len(data))
        return data[:at] + bytes((data[at] ^ 1 << self._random.randrange(8),)) + data[at + 1 :]

    def _insert(self, data: bytes) -> bytes:
        at = self._random.randrange(len(data) + 1)
        return data[:at] + self._random.randbytes(self._random.randrange(1, 9)) + data[at:]

    def _remove(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _token(self, data: bytes) -> bytes:
        start, end = self._span(data)
        kept = start if self._random.random() < 0.5 else end
        return data[:start] + self._random.choice(self._tokens) + data[kept:]

    def _number(self, data: bytes) -> bytes:
        number = self._random.choice(NUMBERS)
        size = self._random.choice((1, 2, 3, 4))
        at = self._random.randrange(len(data) + 1)
        return data[:at] + (number % (1 << 8 * size)).to_bytes(size, "big") + data[at + size :]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self.pool)
        return data[: self._span(data)[0]] + other[self._span(other)[0] :]

    def _move(self, data: bytes) -> bytes:
        start, end = self._span(data)
        at = self._random.randrange(len(data) + 1)
        return data[:at] + data[start:end] + data[at:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._span(data)
        part = data[start:end] or self._random.choice(self._tokens)
        return data[:end] + part * self._times(len(part)) + data[end:]

    def _nest(self, data: bytes) -> bytes:
        """Put what opens many times before a part, and what closes as often after it."""
        start, end = self._span(data)
        opening, closing = self._random.choice(
            ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b"- ", b""))
        )
        times = self._times(len(opening))
        return data[:start] + opening * times + data[start:end] + closing * times + data[end:]

    def _times(self, size: int) -> int:
        return min(self._random.choice((2, 10, 100, 1_000, 10_000, 50_000)), LONGEST_BYTES // max(1, size))
