"""The retention of history: the compaction of etcd, and the watch cache of each collection.

Lists of earlier revisions and further pages are served until the compaction, which runs every five minutes and
removes revisions up to the end of the previous interval. Watches are served from the watch cache, whose capacity
follows the rate of events. Both are computed from the clock when the store is used: there is no timer.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = [
    "COMPACTION_INTERVAL_SECONDS",
    "EVENT_FRESH_SECONDS",
    "MAX_WATCH_EVENTS",
    "MIN_WATCH_EVENTS",
    "Compaction",
    "WatchHistory",
]

COMPACTION_INTERVAL_SECONDS: Final = 300.0
"""`--etcd-compaction-interval` of kube-apiserver."""
EVENT_FRESH_SECONDS: Final = 75.0
"""The least time for which a watch cache keeps events (`DefaultEventFreshDuration`)."""
MIN_WATCH_EVENTS: Final = 100
MAX_WATCH_EVENTS: Final = 100 * 1024
"""The bounds on the capacity of a watch cache, in events."""


class Compaction:
    """The revision up to which the past is compacted, as a function of the clock."""

    __slots__ = ("_candidate", "_next", "revision")

    def __init__(self, revision: int, now: float) -> None:
        self.revision = revision
        self._candidate = revision
        self._next = now + COMPACTION_INTERVAL_SECONDS

    def update(self, latest: int, now: float) -> None:
        """Compact if an interval ended. Call it before each write and each read of the past.

        Args:
            latest: The revision of the last write.
            now: The present time, in seconds.
        """
        if now < self._next:
            return
        ended = 1 + int((now - self._next) // COMPACTION_INTERVAL_SECONDS)
        self.compact(self._candidate if ended == 1 else latest)
        self._candidate = latest
        self._next += ended * COMPACTION_INTERVAL_SECONDS

    def compact(self, revision: int) -> None:
        """Compact up to a revision; it stays readable itself."""
        self.revision = max(self.revision, revision)


class WatchHistory:
    """The events of one collection that the watch cache keeps.

    The capacity doubles while all remembered events are fresh, and halves when the latest quarter takes longer than
    that.
    """

    __slots__ = ("_capacity", "_limit", "_times", "forgotten")

    def __init__(self, beginning: int, limit: int = MAX_WATCH_EVENTS) -> None:
        self.forgotten = beginning
        """Watches from an earlier revision than this are refused."""
        self._capacity = MIN_WATCH_EVENTS
        self._limit = limit
        self._times: deque[tuple[int, float]] = deque()

    def add(self, revision: int, now: float) -> None:
        """Add an event at `now` (in seconds), and drop the events beyond the capacity."""
        times = self._times
        if len(times) == self._capacity:
            self._resize(now)
        times.append((revision, now))
        if len(times) > self._capacity:
            while len(times) > self._capacity:
                times.popleft()
            self.forgotten = times[0][0] - 1

    def _resize(self, now: float) -> None:
        times, capacity = self._times, self._capacity
        if now - times[0][1] < EVENT_FRESH_SECONDS:
            self._capacity = max(capacity, min(2 * capacity, self._limit))
        elif now - times[-capacity // 4][1] > EVENT_FRESH_SECONDS:
            self._capacity = max(capacity // 2, MIN_WATCH_EVENTS)
