"""An event loop that records since when it runs callbacks, so that a watchdog needs no timer in an idle process."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time

__all__ = ["LoopActivity", "ObservedLoop"]


class LoopActivity(selectors.DefaultSelector):
    """The selector of an event loop, and the time at which the loop last returned from it.

    A loop that has ready callbacks polls for events without waiting. Every second such poll is skipped, because most
    events only make one task ready, which runs in the next pass.

    One thread may wait for the loop to become busy. All other methods are for the loop's thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.busy_since = time.monotonic()
        """The start of the callbacks that run now; 0 while the loop waits for events."""
        self.rounds = 0
        """The number of waits for events."""
        self._polled = False
        self._awaited = False
        self._signal = threading.Event()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, and record when the wait ends."""
        if timeout is not None and timeout <= 0 and self._polled:
            self._polled = False
            return []
        self._polled = True
        self.busy_since = 0.0
        self.rounds += 1
        try:
            return super().select(timeout)
        finally:
            self.busy_since = time.monotonic()
            if self._awaited:
                self._signal.set()

    def wait_until_busy(self) -> None:
        """Block until the loop runs callbacks, or `release` is called. For another thread."""
        self._awaited = True
        # The loop may have become busy before it could see that it is awaited.
        if not self.busy_since:
            self._signal.wait()
        self._awaited = False
        self._signal.clear()

    def wait(self, seconds: float) -> None:
        """Block for some seconds, or until `release` is called. For another thread."""
        if self._signal.wait(seconds):
            self._signal.clear()

    def release(self) -> None:
        """End the wait of the other thread."""
        self._signal.set()


class ObservedLoop(asyncio.SelectorEventLoop):
    """The event loop of the standard library with its activity."""

    def __init__(self) -> None:
        self.activity = LoopActivity()
        super().__init__(self.activity)
