"""A watchdog over the silence of a stream that costs one timer per connection, not one per read.

`asyncio.timeout` around every read creates and cancels a timer each time; at thousands of events per second that
is the largest cost of a watch. Here the timer looks, when it fires, how long the present wait has lasted, and sets
itself anew for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steersman.client.errors import TransportError, TransportTimeout

__all__ = ["IdleWatchdog"]

T = TypeVar("T")


class IdleWatchdog:
    """Ends a wait that lasts longer than `seconds` with `TransportTimeout`; for one reader at a time.

    Also how a transport that is closed ends the reads of its open streams (`fail`).
    """

    __slots__ = ("_loop", "_problem", "_seconds", "_task", "_timer", "_what", "now", "since")

    def __init__(self, seconds: float, what: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._seconds = seconds
        self._what = what
        self._task: asyncio.Task[object] | None = None
        self.since = 0.0
        """From when on silence counts; who hears something during a read moves it."""
        self._problem: TransportError | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, read: Callable[[], Awaitable[T]]) -> T:
        """Await `read()`; raises `TransportTimeout` after `seconds` of silence. Cancellation passes through."""
        if self._problem is not None:
            raise self._problem
        task = asyncio.current_task()
        assert task is not None
        self.since = self._loop.time()
        self._task = task
        cancelling = task.cancelling()
        if self._timer is None:
            self._timer = self._loop.call_at(self.since + self._seconds, self._look)
        try:
            result = await read()
        except asyncio.CancelledError:
            if self._problem is not None and task.uncancel() <= cancelling:
                raise self._problem from None
            raise
        finally:
            self._task = None
        if task.cancelling() > cancelling:
            # pyreqwest gives its result when a cancellation meets it, and the cancellation would be lost.
            if self._problem is not None and task.uncancel() <= cancelling:
                raise self._problem
            raise asyncio.CancelledError
        return result

    def _look(self) -> None:
        self._timer = None
        task = self._task
        if task is None:
            return
        due = self.since + self._seconds
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._look)
            return
        self._problem = TransportTimeout(f"{self._what}: nothing arrived for {self._seconds:g} s")
        task.cancel()

    def fail(self, problem: TransportError) -> None:
        """End the present read and all later ones with `problem`."""
        self._problem = problem
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Forget the timer; call when the stream ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
