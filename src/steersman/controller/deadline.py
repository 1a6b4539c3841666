"""The timeout of a worker's reconciles: one timer that is moved, not one per reconcile.

Starting and ending a reconcile costs two assignments; the timer looks only when it rings whether there is still
something to cut off. It tells a timeout from a cancellation that came from elsewhere (R3).
"""

from __future__ import annotations

import asyncio
from math import inf

__all__ = ["Deadline"]


class Deadline:
    """Cancels `task` when a reconcile of it takes longer than `seconds`; `fired` says that this is what happened."""

    __slots__ = ("_at", "_loop", "_seconds", "_task", "_timer", "fired")

    def __init__(self, task: asyncio.Task[None], seconds: float) -> None:
        self._loop = task.get_loop()
        self._task = task
        self._seconds = seconds
        self._at = inf
        self._timer: asyncio.TimerHandle | None = None
        self.fired = False

    def start(self, now: float) -> None:
        """A reconcile begins."""
        self.fired = False
        self._at = now + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._at, self._ring, self._at)

    def end(self) -> None:
        """It ended, in whatever way."""
        self._at = inf

    def close(self) -> None:
        """The worker ended."""
        self._at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, asked: float) -> None:
        self._timer = None
        if self._at == inf:
            return
        if max(asked, self._loop.time()) < self._at:
            self._timer = self._loop.call_at(self._at, self._ring, self._at)
            return
        self._at = inf
        self.fired = True
        self._task.cancel()
