"""Detects that the event loop is blocked, and logs the code that blocks it (R6).

A thread checks a timestamp that the loop updates. It does not depend on the loop, so a liveness probe can use its
result while the loop is blocked. It does not interrupt the code.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from types import TracebackType

from steersman.controller.metrics import LOOP_STALLS
from steersman.telemetry.log import get_logger

__all__ = ["LoopWatchdog", "UnwatchedLoop"]

_log = get_logger("watchdog")


class UnwatchedLoop:
    """Base class of event loops whose time is not real: `LoopWatchdog` starts no thread for them."""


class LoopWatchdog:
    """Logs the stack of the loop's thread when the loop is blocked for `threshold` seconds, once per stall.

    Use it as `with LoopWatchdog():` in the loop's thread. `stalled_for()` may be called from any thread.
    """

    def __init__(self, threshold: float = 1.0) -> None:
        self._threshold = threshold
        self._interval = threshold / 2
        self._beat = time.monotonic()
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._watched = 0
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self.reports = 0

    def __enter__(self) -> LoopWatchdog:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        if isinstance(self._loop, UnwatchedLoop):
            return self
        self._pulse()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=1.0)

    def stalled_for(self) -> float:
        """Return the seconds by which the loop's timestamp is late; 0 if it is not."""
        return max(0.0, time.monotonic() - self._beat - self._interval) if self._thread.ident is not None else 0.0

    def _pulse(self) -> None:
        self._beat = time.monotonic()
        self._timer = self._loop.call_later(self._interval, self._pulse)

    def _watch(self) -> None:
        reported = 0.0
        wait = self._threshold
        while not self._stop.wait(wait):
            beat = self._beat
            silent = time.monotonic() - beat
            # The next check is when the timestamp exceeds the threshold, and slightly after the loop's own timer, which
            # would otherwise update the timestamp just after the check.
            due = self._threshold - silent
            wait = due + self._interval / 8 if due > 0 else self._interval
            if silent >= self._threshold and reported != beat:
                reported = beat
                self.reports += 1
                LOOP_STALLS.inc()
                _log.warning(
                    "event_loop_blocked",
                    seconds=round(silent, 2),
                    stack=self._stack(),
                    hint="move the work to a thread, or make the reconcile a synchronous function",
                )

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched)  # pyright: ignore[reportPrivateUsage]
        return "".join(traceback.format_stack(frame)[-12:]) if frame is not None else "(the thread has ended)"
