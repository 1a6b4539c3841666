"""Limits the number of concurrent requests, first in, first out, without an await while slots are free.

`asyncio.Semaphore` creates a coroutine for every entry, and every request passes here. It belongs to the thread of one
event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Slots"]


class Slots:
    """Call `take` or, if it returns False, `await wait()`; then call `give` exactly once."""

    __slots__ = ("_free", "_waiters")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiters: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a free slot, unless another request waits for one; return whether a slot was taken."""
        if self._free and not self._waiters:
            self._free -= 1
            return True
        return False

    async def wait(self) -> None:
        """Wait for a slot. A cancelled waiter leaves the queue and passes on a slot that it got meanwhile."""
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
        """Return the slot; the first waiter gets it."""
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
