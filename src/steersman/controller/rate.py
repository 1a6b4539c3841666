"""How long a failing key waits: exponential backoff with jitter.

A value without state. How often a key failed is the work queue's knowledge, and randomness comes in as an
argument, so that the same seed gives the same waits.
"""

from __future__ import annotations

from random import Random

import msgspec

__all__ = ["DEFAULT_BACKOFF", "Backoff"]


class Backoff(msgspec.Struct, frozen=True):
    """Seconds to wait after the n-th failure in a row: `base`, doubling, never more than `cap`.

    `jitter` takes up to that share *off* each wait, so that keys which failed together do not return together
    and no wait exceeds the cap. The defaults are client-go's 5 ms to 1000 s.
    """

    base: float = 0.005
    cap: float = 1000.0
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.base <= self.cap and self.factor >= 1 and 0 <= self.jitter < 1):
            raise ValueError(f"{self!r}: needs 0 < base <= cap, factor >= 1 and 0 <= jitter < 1")

    def full(self, failures: int) -> float:
        """The wait after `failures` failures in a row (at least 1), before jitter."""
        try:
            return min(self.cap, self.base * self.factor ** (failures - 1))
        except OverflowError:
            return self.cap

    def delay(self, failures: int, rng: Random) -> float:
        """The wait after `failures` failures in a row: within `(1 - jitter)` and 1 times `full(failures)`."""
        return self.full(failures) * (1.0 - self.jitter * rng.random())


DEFAULT_BACKOFF = Backoff()
