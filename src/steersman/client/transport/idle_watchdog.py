"""An idle timeout for streams that needs one timer per connection instead of one per read.

`asyncio.timeout` around every read creates and cancels a timer each time; with thousands of events per second this
is the largest cost of a watch. The timer here checks the start of the current read when it fires, and restarts itself
for the rest of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steersman.client.errors import TransportError, TransportTimeoutError

__all__ = ["IdleWatchdog"]

T = TypeVar("T")


class IdleWatchdog:
    """Ends a read that lasts longer than `seconds` with `TransportTimeoutError`; for one reader at a time.

    `fail` ends the reads of open streams when their transport is closed.
    """

    __slots__ = ("_label", "_loop", "_problem", "_seconds", "_task", "_timer", "now", "since")

    def __init__(self, seconds: float, label: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._seconds = seconds
        self._label = label
        self._task: asyncio.Task[object] | None = None
        self.since = 0.0
        """The start of the idle time, in the loop's time; a read that receives data sets it anew."""
        self._problem: TransportError | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, read: Callable[[], Awaitable[T]]) -> T:
        """Await `read()`; raises `TransportTimeoutError` after `seconds` without data. Cancellation passes through."""
        if self._problem is not None:
            raise self._problem
        task = asyncio.current_task()
        assert task is not None
        self.since = self._loop.time()
        self._task = task
        cancelling = task.cancelling()
        if self._timer is None:
            self._timer = self._loop.call_at(self.since + self._seconds, self._check)
        try:
            result = await read()
        except asyncio.CancelledError:
            if self._problem is not None and task.uncancel() <= cancelling:
                raise self._problem from None
            raise
        finally:
            self._task = None
        if task.cancelling() > cancelling:
            # pyreqwest returns its result even if the task was cancelled meanwhile, and the cancellation would be lost.
            if self._problem is not None and task.uncancel() <= cancelling:
                raise self._problem
            raise asyncio.CancelledError
        return result

    def _check(self) -> None:
        self._timer = None
        task = self._task
        if task is None:
            return
        due = self.since + self._seconds
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._check)
            return
        self._problem = TransportTimeoutError(f"{self._label}: nothing arrived for {self._seconds:g} s")
        task.cancel()

    def fail(self, problem: TransportError) -> None:
        """End the current read and all later ones with `problem`."""
        self._problem = problem
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Cancel the timer; call this when the stream ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
