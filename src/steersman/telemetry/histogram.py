"""A histogram of plain integers: an observation is a bisection and two additions, and scrapes render it.

The `observe` method of prometheus-client takes a lock and a microsecond, and the work queue and the reconcile loop
observe several values per key. It is not thread-safe: one event loop writes, and a scrape may miss one observation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["Histogram"]


class Histogram:
    """Counts per bucket (upper bounds are inclusive, the last one is infinity) and the sum of the observed values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)

    def buckets(self, bounds: Sequence[float] | None = None) -> list[tuple[str, int]]:
        """Return cumulative counts by upper bound, for the exposition format; `bounds` selects some of the bounds."""
        upto = dict(zip(self.bounds, accumulate(self.counts), strict=False))
        return [*((repr(bound), upto[bound]) for bound in bounds or self.bounds), ("+Inf", self.count)]
