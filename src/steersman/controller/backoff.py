"""`Backoff`: the delays after failures, exponential with jitter; a value without state."""

from __future__ import annotations

from random import Random

import msgspec

__all__ = ["DEFAULT_BACKOFF", "Backoff"]


class Backoff(msgspec.Struct, frozen=True):
    """The delay after the n-th failure in a row: `base` seconds, multiplied by `factor` each time, at most `cap`.

    `jitter` shortens each delay by a random share of up to this value, so that keys that failed together are not
    retried together. The defaults are client-go's, 5 ms to 1000 s.
    """

    base: float = 0.005
    cap: float = 1000.0
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.base <= self.cap and self.factor >= 1 and 0 <= self.jitter < 1):
            raise ValueError(f"{self!r}: use 0 < base <= cap, factor >= 1 and 0 <= jitter < 1")

    def full(self, failures: int) -> float:
        """Return the delay after `failures` failures in a row (at least 1), without jitter."""
        try:
            return min(self.cap, self.base * self.factor ** (failures - 1))
        except OverflowError:
            return self.cap

    def delay(self, failures: int, rng: Random) -> float:
        """Return the delay after `failures` failures in a row: between `1 - jitter` and 1 times `full(failures)`."""
        return self.full(failures) * (1.0 - self.jitter * rng.random())


DEFAULT_BACKOFF = Backoff()
