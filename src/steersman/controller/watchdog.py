"""Detects that the event loop is blocked, and logs the code that blocks it (R6).

A thread checks since when the loop runs callbacks. It does not depend on the loop, so a liveness probe can use its
result while the loop is blocked. It does not interrupt the code. An `ObservedLoop` records that time itself, and while
it waits for events the thread waits too; other loops update a timestamp twice in each threshold.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Final

from steersman.controller.loop_activity import LoopActivity, ObservedLoop
from steersman.controller.metrics import LOOP_STALLS
from steersman.telemetry.log import get_logger

__all__ = ["LoopWatchdog", "UnwatchedLoop"]

_log = get_logger("watchdog")

_IDLE_CHECKS: Final = 3
"""The checks without an event in between after which the thread waits for one: a wake-up by the loop costs more than a
check, so that a loop that renews a lease is checked regularly."""


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
        self._activity: LoopActivity | None = None
        self._thread = threading.Thread(target=self._run, name="loop-watchdog", daemon=True)
        self.reports = 0

    def __enter__(self) -> LoopWatchdog:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        if isinstance(self._loop, UnwatchedLoop):
            return self
        if isinstance(self._loop, ObservedLoop):
            self._activity = self._loop.activity
        else:
            self._pulse()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._stop.set()
        if self._activity is not None:
            self._activity.release()
        if self._thread.ident is not None:
            self._thread.join(timeout=1.0)

    def stalled_for(self) -> float:
        """Return the seconds for which the loop has been blocked; 0 if it is not."""
        if self._activity is not None:
            since = self._activity.busy_since
            return max(0.0, time.monotonic() - since) if since else 0.0
        return max(0.0, time.monotonic() - self._beat - self._interval) if self._thread.ident is not None else 0.0

    def _pulse(self) -> None:
        self._beat = time.monotonic()
        self._timer = self._loop.call_later(self._interval, self._pulse)

    def _run(self) -> None:
        if self._activity is not None:
            self._watch_activity(self._activity)
        else:
            self._watch_timestamp()

    def _watch_activity(self, activity: LoopActivity) -> None:
        reported = 0.0
        rounds = quiet = 0
        while not self._stop.is_set():
            since = activity.busy_since
            if not since:
                quiet = quiet + 1 if activity.rounds == rounds else 0
                rounds = activity.rounds
                if quiet >= _IDLE_CHECKS:
                    activity.wait_until_busy()
                else:
                    activity.wait(self._threshold)
                continue
            silent = time.monotonic() - since
            if silent >= self._threshold and reported != since:
                reported = since
                self._report(silent)
            due = self._threshold - silent
            activity.wait(due if due > 0 else self._interval)

    def _watch_timestamp(self) -> None:
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
                self._report(silent)

    def _report(self, silent: float) -> None:
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
