"""The rules of the work queue as plain data: state and `now` in, decisions out.

No clock, no loop, no I/O: every method is told the time. One record per key that is waiting, running, failing or
promised a later run; a key in none of these is forgotten. The asyncio shell is `queue.WorkQueue`.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from math import inf
from random import Random
from typing import Final, Generic, TypeVar

from steersman.controller.job import DIRTY, FRESH, IDLE, RUNNING, WAITING, Debounce, Item, Job, Later
from steersman.controller.rate import DEFAULT_BACKOFF, Backoff
from steersman.telemetry.histogram import Histogram

__all__ = ["DURATION_BUCKETS", "RECONCILE_BUCKETS", "QueueState"]

K = TypeVar("K", bound=Hashable)

MAX_REASONS: Final = 8
"""Reasons kept per key; what comes after is dropped, the run happens all the same."""
AGED_SHARE: Final = 8
"""One of so many gets goes to a key of lower priority that has waited longer than the ageing time."""

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
    """All keys and what is to happen with them. Methods return how many keys became ready, unless said otherwise.

    `ageing` is how long (seconds) a key of low priority waits before it gets its share of the workers although
    fresher keys are waiting too.
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
        self._turn = 0
        self.timers: list[tuple[float, int, Item[K]]] = []
        """A heap of what is due when; entries that something overtook are left to be skipped."""
        self._pushes = 0
        self.retries = 0
        self.queue_seconds = Histogram(DURATION_BUCKETS)
        self.work_seconds = Histogram(sorted({*DURATION_BUCKETS, *RECONCILE_BUCKETS}))

    # -- intake

    def add(self, key: K, now: float, priority: int = FRESH, reason: str = "") -> int:
        """An event for `key`."""
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

    def add_after(self, key: K, now: float, delay: float, priority: int = FRESH, reason: str = "") -> int:
        """An event for `key`, `delay` seconds from now; of several, the earliest counts."""
        if delay <= 0:
            return self.add(key, now, priority, reason)
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = Item(key, priority, (), now)
        _merge(item, reason)
        late = _late(item)
        late.later = min(late.later, now + delay)
        self._schedule(item, late)
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
        """Something happened to a key that neither waits nor runs."""
        late = item.late
        if late is not None and late.retry_at < inf:
            if late.early:  # Q5: one event per window may cut the backoff short, the rest wait with it
                return 0
            late.early = True
            return self._ready(item, now)
        if settle and self._debounce is not None:
            return self._settle(item, now, self._debounce)
        return self._ready(item, now)

    def _settle(self, item: Item[K], now: float, debounce: Debounce) -> int:
        late = _late(item)
        if late.settle_by == inf:
            late.settle_by = now + debounce.max_wait
        late.settle_at = min(now + debounce.quiet, late.settle_by)
        item.phase = IDLE
        self._schedule(item, late)
        return 0

    # -- workers

    def take(self, now: float) -> Job[K] | None:
        """The next key for a worker, which now owns it until it reports; None when nothing is ready."""
        for level in self._levels:
            if level.items:
                break
        else:
            return None
        if level is not self._levels[-1]:
            self._turn += 1
            if self._turn % AGED_SHARE == 0:
                level = self._aged(level, now)
        key, item = level.items.popitem(last=False)
        item.phase = RUNNING
        self.queue_seconds.observe(now - item.since)
        item.since = now
        reasons, item.reasons = item.reasons, ()
        late = item.late
        if late is None:
            return Job(key, reasons, 1, item.priority)
        late.retry_at = late.settle_at = late.settle_by = inf
        if late.promised <= now:
            late.promised = inf
        if late.later <= now:
            late.later = inf
        return Job(key, reasons, late.failures + 1, item.priority)

    def _aged(self, first: _Level[K], now: float) -> _Level[K]:
        oldest, since = first, now - self._ageing
        for level in self._levels:
            if level.rank > first.rank and level.items:
                head = next(iter(level.items.values()))
                if head.since <= since:
                    oldest, since = level, head.since
        return oldest

    def done(self, key: K, now: float, requeue_after: float | None = None) -> int:
        """Success: failures are forgotten, and a promise is replaced by `requeue_after`, or taken back."""
        item = self._running(key, now)
        late = item.late
        if late is None and requeue_after is None:
            if item.phase is RUNNING:
                del self._items[key]
                return 0
            return self._rest(item, now)
        late = _late(item)
        _forget(late)
        late.promised = inf if requeue_after is None else now + max(0.0, requeue_after)
        return self._rest(item, now)

    def fail(self, key: K, now: float) -> tuple[int, float]:
        """Failure: the key backs off. Returns how many keys became ready, and the wait in seconds.

        An attempt that an event brought forward within a backoff window does not count: the window goes on.
        """
        item = self._running(key, now)
        self.retries += 1
        late = _late(item)
        if late.early and now < late.window:
            late.retry_at = late.window
        else:
            late.failures += 1
            late.early = False
            late.retry_at = late.window = now + self._backoff.delay(late.failures, self._rng)
        wait = late.retry_at - now
        return self._rest(item, now), wait

    def give_up(self, key: K, now: float) -> int:
        """A terminal error: failures are forgotten and nothing is retried until something new happens."""
        item = self._running(key, now)
        if item.late is not None:
            _forget(item.late)
        return self._rest(item, now)

    def put_back(self, key: K, now: float, reasons: tuple[str, ...] = ()) -> int:
        """The worker could not finish, for no fault of the key: ready again at once."""
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

    def _rest(self, item: Item[K], now: float) -> int:
        """The run of a key is over: ready again, waiting for a timer, or forgotten."""
        was_dirty = item.phase is DIRTY
        item.phase = IDLE
        late = item.late
        ready = 0
        if was_dirty:
            item.since = now
            ready = self._arrive(item, now)
        late = item.late
        if late is not None and late.next_due() < inf:
            self._schedule(item, late)
        elif item.phase is IDLE:
            del self._items[item.key]
        elif late is not None and not late.failures and late.due == inf:
            item.late = None
        return ready

    # -- timers

    def next_due(self) -> float:
        """When `advance` has something to do next; infinity when never."""
        return self.timers[0][0] if self.timers else inf

    def advance(self, now: float) -> int:
        """Time has passed: retries, promises, delayed adds and settled keys that are due become ready."""
        ready = 0
        heap = self.timers
        while heap and heap[0][0] <= now:
            due, _, item = heapq.heappop(heap)
            late = item.late
            if late is None or late.due != due or self._items.get(item.key) is not item:
                continue
            late.due = inf
            ready += self._fire(item, late, now)
            if late.next_due() < inf:
                self._schedule(item, late)
        return ready

    def _fire(self, item: Item[K], late: Later, now: float) -> int:
        retry, settled = late.retry_at <= now, late.settle_at <= now
        event = False
        if late.promised <= now:
            late.promised, event = inf, True
            _merge(item, "requeue-after")
        if late.later <= now:
            late.later, event = inf, True
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

    def _schedule(self, item: Item[K], late: Later) -> None:
        due = late.next_due()
        if due < late.due:
            late.due = due
            self._pushes += 1
            heapq.heappush(self.timers, (due, self._pushes, item))
            if len(self.timers) > 64 + 2 * len(self._items):
                self._compact()

    def _compact(self) -> None:
        self.timers = [e for e in self.timers if self._items.get(e[2].key) is e[2] and _late(e[2]).due == e[0]]
        heapq.heapify(self.timers)

    # -- levels

    def _ready(self, item: Item[K], now: float) -> int:
        late = item.late
        if late is not None:
            late.retry_at = late.settle_at = late.settle_by = inf
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

    # -- what metrics and tests read

    def __len__(self) -> int:
        return sum(len(level.items) for level in self._levels)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def depths(self) -> dict[int, int]:
        """Waiting keys by priority."""
        return {-level.rank: len(level.items) for level in self._levels}

    def adds(self) -> dict[int, int]:
        """Keys that became ready, ever, by priority."""
        return {-level.rank: level.adds for level in self._levels}

    def running(self) -> Iterator[tuple[K, float]]:
        """The keys that workers have, and since when."""
        for item in self._items.values():
            if item.phase >= RUNNING:
                yield item.key, item.since

    def failures(self, key: K) -> int:
        """How often `key` failed in a row."""
        item = self._items.get(key)
        return item.late.failures if item is not None and item.late is not None else 0


def _late(item: Item[K]) -> Later:
    late = item.late
    if late is None:
        late = item.late = Later()
    return late


def _forget(late: Later) -> None:
    late.failures = 0
    late.retry_at = inf
    late.window = 0.0
    late.early = False


def _has_no_event(item: Item[K]) -> bool:
    late = item.late
    return late is not None and item.phase is IDLE and late.settle_at == inf and late.retry_at == inf


def _merge(item: Item[K], reason: str) -> None:
    reasons = item.reasons
    if reason and reason not in reasons and len(reasons) < MAX_REASONS:
        item.reasons = (*reasons, reason)
