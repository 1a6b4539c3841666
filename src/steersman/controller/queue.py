"""`WorkQueue`: the keys that wait for workers, in the event loop.

It adds the loop's clock, waiters and one timer to `QueueState`, which has the rules. One waiting worker is woken per
ready key. Workers pull keys; there is no task per key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from math import inf
from random import Random
from typing import Generic, TypeVar

from steersman.controller.backoff import DEFAULT_BACKOFF, Backoff
from steersman.controller.queue_items import DEFAULT_PRIORITY, LOW_PRIORITY, Debounce, Job
from steersman.controller.queue_state import QueueState

__all__ = ["DEFAULT_PRIORITY", "LOW_PRIORITY", "Debounce", "Job", "QueueClosedError", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class QueueClosedError(Exception):
    """The queue is shut down."""


class WorkQueue(Generic[K]):
    """The keys that wait for workers.

    At most one worker has a key (Q1). Events of a waiting key collapse (Q2). Higher priorities go first, and a share of
    the workers goes to keys that have waited long (Q3). Within a priority, keys are first in, first out (Q4). Failures
    back off, by default from 5 ms to 1000 s (Q5). A scheduled requeue does not delay later events and is not lost to
    them (Q6). Debounce is optional (Q7).

    A worker calls `get`, then exactly one of `done`, `fail`, `give_up` and `put_back`. All methods must be called in
    the thread of the event loop. Times are in seconds.
    """

    def __init__(
        self,
        name: str = "",
        *,
        rng: Random | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        debounce: Debounce | None = None,
        ageing: float = 10.0,
    ) -> None:
        self.name = name
        self.state: QueueState[K] = QueueState(rng or Random(), backoff=backoff, debounce=debounce, ageing=ageing)  # noqa: S311
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now: Callable[[], float] = self._bind
        self._waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed = inf
        self._closed = False

    def _bind(self) -> float:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        return self._now()

    # -- intake

    def add(self, key: K, priority: int = DEFAULT_PRIORITY, reason: str = "") -> None:
        """Add an event of `key`; does nothing after `shut_down`."""
        if not self._closed:
            state = self.state
            ready = state.add(key, self._now(), priority, reason)
            if self._waiters or state.timers:
                self._wake(ready)

    def add_after(self, key: K, delay: float, *, priority: int = DEFAULT_PRIORITY, reason: str = "") -> None:
        """Add an event of `key` in `delay` seconds; of several delayed adds, the earliest counts."""
        if not self._closed:
            self._wake(self.state.add_after(key, self._now(), delay, priority, reason))

    # -- workers

    def take(self) -> Job[K] | None:
        """Take a ready key, or return `None`; always `None` after `shut_down`."""
        return None if self._closed else self.state.take(self._now())

    async def get(self) -> Job[K]:
        """Wait for a ready key and take it.

        Raises:
            QueueClosedError: The queue is shut down.
        """
        while (job := self.take()) is None:
            if self._closed:
                raise QueueClosedError(self.name)
            assert self._loop is not None
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake(1)  # this waiter was woken and is cancelled: wake another one
                else:
                    self._waiters.remove(waiter)
                raise
        return job

    def done(self, key: K, requeue_after: float | None = None) -> None:
        """Report a success; the key runs again in `requeue_after` seconds if given."""
        state = self.state
        ready = state.done(key, self._now(), requeue_after)
        if ready or state.timers:
            self._wake(ready)

    def fail(self, key: K) -> float:
        """Report a failure; the key is retried with backoff. Return the delay in seconds."""
        ready, wait = self.state.fail(key, self._now())
        self._wake(ready)
        return wait

    def give_up(self, key: K) -> None:
        """Report a terminal failure; the key is not retried until its next event."""
        self._wake(self.state.give_up(key, self._now()))

    def put_back(self, key: K, reasons: tuple[str, ...] = ()) -> None:
        """Return a key that the worker could not finish; it is ready again immediately."""
        self._wake(self.state.put_back(key, self._now(), reasons))

    # -- end

    def shut_down(self) -> None:
        """Stop accepting keys and end all waits; running workers still report. May be called twice."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            waiter = self._waiters.pop()
            if not waiter.done():
                waiter.set_result(None)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __len__(self) -> int:
        return len(self.state)

    def now(self) -> float:
        """Return the time of the queue's clock, for metrics."""
        return self._now() if self._loop is not None else 0.0

    # -- waiters and timer

    def _wake(self, ready: int) -> None:
        waiters = self._waiters
        while ready and waiters:
            waiter = waiters.pop()  # the last waiter: its memory is still in the processor's caches
            if not waiter.done():
                waiter.set_result(None)
                ready -= 1
        timers = self.state.timers
        if timers and timers[0][0] < self._armed:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed = self.state.next_due()
        if self._armed < inf and self._loop is not None and not self._closed:
            self._timer = self._loop.call_at(self._armed, self._timer_expired, self._armed)

    def _timer_expired(self, due: float) -> None:
        # A loop may call up to its clock's resolution early; the queue must not see a time before its deadline.
        self._timer = None
        self._armed = inf
        ready = self.state.advance(max(due, self._now()))
        self._wake(ready)
        self._arm()
