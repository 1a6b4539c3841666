"""How many events one object may cause: a token bucket per object, client-go's spam filter.

Pure: the time comes in. Remembers a bounded number of objects; one that is forgotten starts with a full bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

__all__ = ["SpamFilter"]


class SpamFilter:
    """`burst` events at once and one more every `seconds_per_event`, for each of the `remembered` latest objects."""

    def __init__(self, burst: int = 25, seconds_per_event: float = 300.0, remembered: int = 4096) -> None:
        self._burst = float(burst)
        self._rate = 1.0 / seconds_per_event
        self._remembered = remembered
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allows(self, who: Hashable, now: float) -> bool:
        """Take a token of `who` if there is one."""
        tokens, since = self._buckets.pop(who, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[who] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > self._remembered:
            self._buckets.popitem(last=False)
        return allowed
