"""`WorkQueue`: which key a worker takes next, and when; the heart of every controller.

A thin asyncio shell around `QueueState`: it brings the loop's clock, wakes one waiting worker per ready key, and
keeps a single timer for everything that is delayed. Workers pull; there is never a task per key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from math import inf
from random import Random
from typing import Generic, TypeVar

from steersman.controller.job import FRESH, LOW_PRIORITY, Debounce, Job
from steersman.controller.queue_state import QueueState
from steersman.controller.rate import DEFAULT_BACKOFF, Backoff

__all__ = ["FRESH", "LOW_PRIORITY", "Debounce", "Job", "QueueClosedError", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class QueueClosedError(Exception):
    """The queue was shut down: there is nothing more to take."""


class WorkQueue(Generic[K]):
    """Keys that wait for a worker.

    Guarantees: a key is with at most one worker (Q1); events for a waiting key collapse (Q2); higher priority first,
    with a share for what waits long (Q3); first in, first out within a priority (Q4); failures back off, 5 ms to
    1000 s (Q5); a promised requeue neither delays newer events nor is lost to them (Q6); debounce on request (Q7).

    A worker calls `get`, then exactly one of `done`, `fail`, `give_up` and `put_back`. All methods belong to the
    thread of the event loop in which the queue is first used. Times are seconds.
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

    def add(self, key: K, priority: int = FRESH, reason: str = "") -> None:
        """Something happened to `key`. Never blocks; after `shut_down` it does nothing."""
        if not self._closed:
            state = self.state
            ready = state.add(key, self._now(), priority, reason)
            if self._waiters or state.timers:
                self._wake(ready)

    def add_after(self, key: K, delay: float, *, priority: int = FRESH, reason: str = "") -> None:
        """`add` in `delay` seconds. Of several delayed adds of a key the earliest counts."""
        if not self._closed:
            self._wake(self.state.add_after(key, self._now(), delay, priority, reason))

    # -- workers

    def take(self) -> Job[K] | None:
        """A key that is ready, if there is one; never after `shut_down`."""
        return None if self._closed else self.state.take(self._now())

    async def get(self) -> Job[K]:
        """Wait for a key and take it; raises `QueueClosedError` after `shut_down`."""
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
                    self._wake(1)  # the call came to us, but we leave: pass it on
                else:
                    self._waiters.remove(waiter)
                raise
        return job

    def done(self, key: K, requeue_after: float | None = None) -> None:
        """The reconcile succeeded; run again in `requeue_after` seconds if given."""
        state = self.state
        ready = state.done(key, self._now(), requeue_after)
        if ready or state.timers:
            self._wake(ready)

    def fail(self, key: K) -> float:
        """The reconcile failed: retry with backoff. Returns the wait in seconds."""
        ready, wait = self.state.fail(key, self._now())
        self._wake(ready)
        return wait

    def give_up(self, key: K) -> None:
        """The reconcile failed for good: no retry until something new happens to the key."""
        self._wake(self.state.give_up(key, self._now()))

    def put_back(self, key: K, reasons: tuple[str, ...] = ()) -> None:
        """The worker must leave: another may take the key at once."""
        self._wake(self.state.put_back(key, self._now(), reasons))

    # -- end

    def shut_down(self) -> None:
        """Stop the intake and send every waiting worker home; running workers still report. Idempotent."""
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
        return self._closed

    def __len__(self) -> int:
        return len(self.state)

    def now(self) -> float:
        """The clock this queue runs on, for metrics."""
        return self._now() if self._loop is not None else 0.0

    # -- shell

    def _wake(self, ready: int) -> None:
        waiters = self._waiters
        while ready and waiters:
            waiter = waiters.pop()  # who waited least: what a worker needs is still in the processor's caches
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
            self._timer = self._loop.call_at(self._armed, self._ring, self._armed)

    def _ring(self, due: float) -> None:
        # A loop may call up to its clock's resolution early; the queue must not see a time before the one it asked for.
        self._timer = None
        self._armed = inf
        ready = self.state.advance(max(due, self._now()))
        self._wake(ready)
        self._arm()
