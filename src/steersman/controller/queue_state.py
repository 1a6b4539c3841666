"""The rules of the work queue as a pure data structure; `queue.WorkQueue` connects it to the event loop.

There is no clock and no I/O: every method receives the time. There is one item per key that waits, runs, has failed or
is scheduled for later; other keys are not remembered.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from math import inf
from random import Random
from typing import Final, Generic, TypeVar

from steersman.controller.backoff import DEFAULT_BACKOFF, Backoff
from steersman.controller.queue_items import (
    DEFAULT_PRIORITY,
    DIRTY,
    IDLE,
    RUNNING,
    WAITING,
    Debounce,
    Item,
    Job,
    Schedule,
)
from steersman.telemetry.histogram import Histogram

__all__ = ["DURATION_BUCKETS", "RECONCILE_BUCKETS", "QueueState"]

K = TypeVar("K", bound=Hashable)

MAX_REASONS: Final = 8
"""The most reasons per key; later ones are dropped."""
AGED_INTERVAL: Final = 8
"""One of this many takes goes to a key of lower priority that has waited longer than the ageing time."""

# workqueue metrics of controller-runtime: prometheus.ExponentialBuckets(10e-9, 10, 12)
DURATION_BUCKETS: Final = tuple(1e-8 * 10**n for n in range(12))
# controller_runtime_reconcile_time_seconds, as controller-runtime has them.
RECONCILE_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip


class _Level(Generic[K]):
    """The waiting keys of one priority, first in, first out."""

    __slots__ = ("adds", "items", "rank")

    def __init__(self, priority: int) -> None:
        self.rank = -priority
        self.items: OrderedDict[K, Item[K]] = OrderedDict()
        self.adds = 0

    def __lt__(self, other: _Level[K]) -> bool:
        return self.rank < other.rank


class QueueState(Generic[K]):
    """All keys and their times. Methods return the number of keys that became ready, unless stated otherwise.

    `ageing` is the time in seconds after which a key of low priority gets a share of the workers.
    """

    def __init__(
        self,
        rng: Random,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        debounce: Debounce | None = None,
        ageing: float = 10.0,
    ) -> None:
        self._rng = rng
        self._backoff = backoff
        self._debounce = debounce
        self._ageing = ageing
        self._items: dict[K, Item[K]] = {}
        self._levels: list[_Level[K]] = []
        self._by_priority: dict[int, _Level[K]] = {}
        self._takes = 0
        self.timers: list[tuple[float, int, Item[K]]] = []
        """A heap of items by time; outdated entries are skipped."""
        self._pushes = 0
        self.retries = 0
        self.queue_seconds = Histogram(DURATION_BUCKETS)
        self.work_seconds = Histogram(sorted({*DURATION_BUCKETS, *RECONCILE_BUCKETS}))

    # -- intake

    def add(self, key: K, now: float, priority: int = DEFAULT_PRIORITY, reason: str = "") -> int:
        """Add an event of `key`."""
        item = self._items.get(key)
        if item is not None:
            return self._add_known(item, now, priority, reason)
        item = self._items[key] = Item(key, priority, (reason,) if reason else (), now)
        if self._debounce is not None:
            return self._settle(item, now, self._debounce)
        item.phase = WAITING
        level = self._by_priority.get(priority) or self._new_level(priority)
        level.items[key] = item
        level.adds += 1
        return 1

    def add_after(self, key: K, now: float, delay: float, priority: int = DEFAULT_PRIORITY, reason: str = "") -> int:
        """Add an event of `key` in `delay` seconds; of several, the earliest counts."""
        if delay <= 0:
            return self.add(key, now, priority, reason)
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = Item(key, priority, (), now)
        _merge(item, reason)
        schedule = _schedule_of(item)
        schedule.add_at = min(schedule.add_at, now + delay)
        self._schedule(item, schedule)
        return 0

    def _add_known(self, item: Item[K], now: float, priority: int, reason: str) -> int:
        phase = item.phase
        if phase is RUNNING:
            item.phase = DIRTY
            item.priority = priority
            item.reasons = (reason,) if reason else ()
            return 0
        _merge(item, reason)
        if phase is WAITING:
            if priority > item.priority:
                del self._by_priority[item.priority].items[item.key]
                self._enqueue(item, priority)
            return 0
        if priority > item.priority or _has_no_event(item):
            item.priority = priority
        return 0 if phase is DIRTY else self._arrive(item, now)

    def _arrive(self, item: Item[K], now: float, *, settle: bool = True) -> int:
        """Handle an event of a key that neither waits nor runs."""
        schedule = item.schedule
        if schedule is not None and schedule.retry_at < inf:
            if schedule.retried_early:  # Q5: only one event per window shortens the backoff
                return 0
            schedule.retried_early = True
            return self._ready(item, now)
        if settle and self._debounce is not None:
            return self._settle(item, now, self._debounce)
        return self._ready(item, now)

    def _settle(self, item: Item[K], now: float, debounce: Debounce) -> int:
        schedule = _schedule_of(item)
        if schedule.debounce_by == inf:
            schedule.debounce_by = now + debounce.max_wait
        schedule.debounce_at = min(now + debounce.quiet, schedule.debounce_by)
        item.phase = IDLE
        self._schedule(item, schedule)
        return 0

    # -- workers

    def take(self, now: float) -> Job[K] | None:
        """Assign the next ready key to a worker, until it reports; `None` if none is ready."""
        for level in self._levels:
            if level.items:
                break
        else:
            return None
        if level is not self._levels[-1]:
            self._takes += 1
            if self._takes % AGED_INTERVAL == 0:
                level = self._aged_level(level, now)
        key, item = level.items.popitem(last=False)
        item.phase = RUNNING
        self.queue_seconds.observe(now - item.since)
        item.since = now
        reasons, item.reasons = item.reasons, ()
        schedule = item.schedule
        if schedule is None:
            return Job(key, reasons, 1, item.priority)
        schedule.retry_at = schedule.debounce_at = schedule.debounce_by = inf
        if schedule.requeue_at <= now:
            schedule.requeue_at = inf
        if schedule.add_at <= now:
            schedule.add_at = inf
        return Job(key, reasons, schedule.failures + 1, item.priority)

    def _aged_level(self, first: _Level[K], now: float) -> _Level[K]:
        oldest, since = first, now - self._ageing
        for level in self._levels:
            if level.rank > first.rank and level.items:
                head = next(iter(level.items.values()))
                if head.since <= since:
                    oldest, since = level, head.since
        return oldest

    def done(self, key: K, now: float, requeue_after: float | None = None) -> int:
        """Report a success: reset the failures, and replace a scheduled requeue by `requeue_after`."""
        item = self._running(key, now)
        schedule = item.schedule
        if schedule is None and requeue_after is None:
            if item.phase is RUNNING:
                del self._items[key]
                return 0
            return self._release(item, now)
        schedule = _schedule_of(item)
        _forget(schedule)
        schedule.requeue_at = inf if requeue_after is None else now + max(0.0, requeue_after)
        return self._release(item, now)

    def fail(self, key: K, now: float) -> tuple[int, float]:
        """Report a failure; return the number of keys that became ready, and the delay in seconds.

        An attempt that an event started within a backoff window does not count, and the window continues.
        """
        item = self._running(key, now)
        self.retries += 1
        schedule = _schedule_of(item)
        if schedule.retried_early and now < schedule.window_end:
            schedule.retry_at = schedule.window_end
        else:
            schedule.failures += 1
            schedule.retried_early = False
            schedule.retry_at = schedule.window_end = now + self._backoff.delay(schedule.failures, self._rng)
        wait = schedule.retry_at - now
        return self._release(item, now), wait

    def give_up(self, key: K, now: float) -> int:
        """Report a terminal error: reset the failures; there is no retry until the next event."""
        item = self._running(key, now)
        if item.schedule is not None:
            _forget(item.schedule)
        return self._release(item, now)

    def put_back(self, key: K, now: float, reasons: tuple[str, ...] = ()) -> int:
        """Make a key ready again that its worker could not finish."""
        item = self._running(key, now)
        for reason in reasons:
            _merge(item, reason)
        return self._ready(item, now)

    def _running(self, key: K, now: float) -> Item[K]:
        item = self._items.get(key)
        if item is None or item.phase < RUNNING:
            raise RuntimeError(f"work queue: {key} was reported finished, but no worker has it")
        self.work_seconds.observe(now - item.since)
        return item

    def _release(self, item: Item[K], now: float) -> int:
        """End the run of a key, which then is ready, waits for a time, or is dropped."""
        was_dirty = item.phase is DIRTY
        item.phase = IDLE
        schedule = item.schedule
        ready = 0
        if was_dirty:
            item.since = now
            ready = self._arrive(item, now)
        schedule = item.schedule
        if schedule is not None and schedule.next_due() < inf:
            self._schedule(item, schedule)
        elif item.phase is IDLE:
            del self._items[item.key]
        elif schedule is not None and not schedule.failures and schedule.due == inf:
            item.schedule = None
        return ready

    # -- timers

    def next_due(self) -> float:
        """Return the time at which `advance` has something to do; infinity if never."""
        return self.timers[0][0] if self.timers else inf

    def advance(self, now: float) -> int:
        """Make keys ready whose retry, requeue, delayed add or debounce is due."""
        ready = 0
        heap = self.timers
        while heap and heap[0][0] <= now:
            due, _, item = heapq.heappop(heap)
            schedule = item.schedule
            if schedule is None or schedule.due != due or self._items.get(item.key) is not item:
                continue
            schedule.due = inf
            ready += self._fire(item, schedule, now)
            if schedule.next_due() < inf:
                self._schedule(item, schedule)
        return ready

    def _fire(self, item: Item[K], schedule: Schedule, now: float) -> int:
        retry, settled = schedule.retry_at <= now, schedule.debounce_at <= now
        event = False
        if schedule.requeue_at <= now:
            schedule.requeue_at, event = inf, True
            _merge(item, "requeue-after")
        if schedule.add_at <= now:
            schedule.add_at, event = inf, True
        if item.phase is RUNNING:
            item.phase = DIRTY
            return 0
        if item.phase is not IDLE:
            return 0
        if retry:
            _merge(item, "retry")
        if retry or settled:
            return self._ready(item, now)
        return self._arrive(item, now, settle=False) if event else 0

    def _schedule(self, item: Item[K], schedule: Schedule) -> None:
        due = schedule.next_due()
        if due < schedule.due:
            schedule.due = due
            self._pushes += 1
            heapq.heappush(self.timers, (due, self._pushes, item))
            if len(self.timers) > 64 + 2 * len(self._items):
                self._compact()

    def _compact(self) -> None:
        self.timers = [e for e in self.timers if self._items.get(e[2].key) is e[2] and _schedule_of(e[2]).due == e[0]]
        heapq.heapify(self.timers)

    # -- levels

    def _ready(self, item: Item[K], now: float) -> int:
        schedule = item.schedule
        if schedule is not None:
            schedule.retry_at = schedule.debounce_at = schedule.debounce_by = inf
        item.phase = WAITING
        item.since = now
        self._enqueue(item, item.priority)
        return 1

    def _enqueue(self, item: Item[K], priority: int) -> None:
        level = self._by_priority.get(priority) or self._new_level(priority)
        item.priority = priority
        level.items[item.key] = item
        level.adds += 1

    def _new_level(self, priority: int) -> _Level[K]:
        level = self._by_priority[priority] = _Level(priority)
        insort(self._levels, level)
        return level

    # -- for metrics and tests

    def __len__(self) -> int:
        return sum(len(level.items) for level in self._levels)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def depths(self) -> dict[int, int]:
        """Return the number of waiting keys by priority."""
        return {-level.rank: len(level.items) for level in self._levels}

    def adds(self) -> dict[int, int]:
        """Return the number of keys that have become ready, by priority."""
        return {-level.rank: level.adds for level in self._levels}

    def running(self) -> Iterator[tuple[K, float]]:
        """Iterate over the keys that workers have, and the times since."""
        for item in self._items.values():
            if item.phase >= RUNNING:
                yield item.key, item.since

    def next_retry(self) -> float:
        """Return the earliest time at which a failed key is retried; infinity without one."""
        return min((item.schedule.retry_at for item in self._items.values() if item.schedule is not None), default=inf)

    def scheduled(self) -> list[K]:
        """Return the keys that are retried, requeued or added at a later time."""
        return [
            item.key for item in self._items.values()
            if (known := item.schedule) is not None and min(known.retry_at, known.requeue_at, known.add_at) < inf
        ]  # fmt: skip

    def failures(self, key: K) -> int:
        """Return the number of failures of `key` in a row."""
        item = self._items.get(key)
        return item.schedule.failures if item is not None and item.schedule is not None else 0


def _schedule_of(item: Item[K]) -> Schedule:
    schedule = item.schedule
    if schedule is None:
        schedule = item.schedule = Schedule()
    return schedule


def _forget(schedule: Schedule) -> None:
    schedule.failures = 0
    schedule.retry_at = inf
    schedule.window_end = 0.0
    schedule.retried_early = False


def _has_no_event(item: Item[K]) -> bool:
    schedule = item.schedule
    return schedule is not None and item.phase is IDLE and schedule.debounce_at == inf and schedule.retry_at == inf


def _merge(item: Item[K], reason: str) -> None:
    reasons = item.reasons
    if reason and reason not in reasons and len(reasons) < MAX_REASONS:
        item.reasons = (*reasons, reason)
