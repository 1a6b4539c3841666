"""The timeout of a worker's reconciles, with one timer for all of them.

The start and end of a reconcile cost two assignments. When the timer fires, it checks whether a reconcile has exceeded
its timeout. `fired` distinguishes a timeout from other cancellations (R3).
"""

from __future__ import annotations

import asyncio
from math import inf

__all__ = ["Deadline"]


class Deadline:
    """Cancels `task` if a reconcile takes longer than `seconds`, and then sets `fired`."""

    __slots__ = ("_at", "_loop", "_seconds", "_task", "_timer", "fired")

    def __init__(self, task: asyncio.Task[None], seconds: float) -> None:
        self._loop = task.get_loop()
        self._task = task
        self._seconds = seconds
        self._at = inf
        self._timer: asyncio.TimerHandle | None = None
        self.fired = False

    def start(self, now: float) -> None:
        """Start the timeout of a reconcile, at the loop's time `now`."""
        self.fired = False
        self._at = now + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._at, self._expire, self._at)

    def end(self) -> None:
        """End the timeout, because the reconcile has ended."""
        self._at = inf

    def close(self) -> None:
        """Cancel the timer, because the worker has ended."""
        self._at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, asked: float) -> None:
        self._timer = None
        if self._at == inf:
            return
        if max(asked, self._loop.time()) < self._at:
            self._timer = self._loop.call_at(self._at, self._expire, self._at)
            return
        self._at = inf
        self.fired = True
        self._task.cancel()
