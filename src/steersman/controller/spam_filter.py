"""The rate limit of Events per object, with one token bucket per object, as client-go's EventSpamFilter."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

__all__ = ["SpamFilter"]


class SpamFilter:
    """Allows `burst` Events and one more every `seconds_per_event`, for each of the `remembered` latest objects.

    Other objects start again with a full bucket.
    """

    def __init__(self, burst: int = 25, seconds_per_event: float = 300.0, remembered: int = 4096) -> None:
        self._burst = float(burst)
        self._rate = 1.0 / seconds_per_event
        self._remembered = remembered
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allows(self, key: Hashable, now: float) -> bool:
        """Take a token of the object `key` at the time `now`; return whether there was one."""
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > self._remembered:
            self._buckets.popitem(last=False)
        return allowed
