"""A histogram of plain integers: counting costs a bisection and two additions, rendering happens at scrape time.

prometheus-client's own `observe` takes a lock and a microsecond; the work queue and the reconcile loop count
several values per key. Not thread-safe: one loop writes, and a scrape may be one observation behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["Histogram"]


class Histogram:
    """Counts per bucket (upper bounds inclusive, the last is infinity) and the sum of what was observed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def buckets(self, bounds: Sequence[float] | None = None) -> list[tuple[str, int]]:
        """Cumulative counts by upper bound, as the exposition format wants them; `bounds` are some of the bounds."""
        upto = dict(zip(self.bounds, accumulate(self.counts), strict=False))
        return [*((repr(bound), upto[bound]) for bound in bounds or self.bounds), ("+Inf", self.count)]
