"""At most so many requests at once, first come, first served; where there is room, it costs no await.

`asyncio.Semaphore` does the same, but makes a coroutine of every entry, and every request of every reconcile passes
here. Belongs to the thread of one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Slots"]


class Slots:
    """`take` or, where that is false, `await wait()`; then `give` exactly once."""

    __slots__ = ("_free", "_waiters")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a free slot, unless somebody waits for one."""
        if self._free and not self._waiters:
            self._free -= 1
            return True
        return False

    async def wait(self) -> None:
        """Wait in line for a slot. Cancelled waiters leave the line, and pass on what they were given meanwhile."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give()
            else:
                self._waiters.remove(waiter)
            raise

    def give(self) -> None:
        """Give the slot back: it goes to the first in line."""
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
