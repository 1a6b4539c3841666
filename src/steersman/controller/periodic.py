"""`Periodic`: runs a function at an interval, for work without events (`@operator.timer(30)`).

Runs do not overlap: a run that takes longer than the interval delays the next one. Failures are logged and counted and
do not change the schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from steersman.controller.blocking import is_async, run_blocking
from steersman.controller.metrics import TIMER_RUNS
from steersman.telemetry.log import get_logger

__all__ = ["Periodic"]

_log = get_logger("timer")


class Periodic:
    """Runs a function at an interval.

    Args:
        name: The name in logs and metrics.
        seconds: The interval. The schedule does not drift, and missed runs are skipped.
        function: The function, async or synchronous; a synchronous one runs in a thread.
        jitter: The share of the interval by which a run is randomly delayed at most.
        initial_delay: Seconds until the first run.
        timeout: Seconds after which an async run is cancelled.
        rng: The source of jitter.

    Raises:
        ValueError: `seconds` or `jitter` is out of range.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        function: Callable[[], Awaitable[object] | object],
        *,
        jitter: float = 0.1,
        initial_delay: float = 0.0,
        timeout: float | None = None,
        rng: Random | None = None,
    ) -> None:
        if seconds <= 0:
            raise ValueError(f"timer {name!r}: interval {seconds} s: use a number above 0")
        if not 0 <= jitter < 1:
            raise ValueError(f"timer {name!r}: jitter={jitter}: use a share from 0 to below 1")
        self.name = name
        self._seconds = seconds
        self._function: Callable[[], Any] = function
        self._is_async = is_async(function)
        self._jitter = jitter
        self._initial = initial_delay
        self._timeout = timeout
        self._rng = rng or Random()  # noqa: S311 - jitter
        self._stopping = asyncio.Event()
        self._pool: ThreadPoolExecutor | None = None

    async def run(self) -> None:
        """Run until `stop`, which lets the current run finish, or until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._initial
        try:
            while not await self._stopped_before(due + self._seconds * self._jitter * self._rng.random()):
                await self._once()
                missed = max(0, int((loop.time() - due) // self._seconds))
                due += self._seconds * (missed + 1)
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False)

    def stop(self) -> None:
        """Let the current run finish, and start no other one."""
        self._stopping.set()

    async def _stopped_before(self, when: float) -> bool:
        try:
            async with asyncio.timeout_at(when):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _once(self) -> None:
        result = "success"
        try:
            async with asyncio.timeout(self._timeout if self._is_async else None):
                await self._call()
        except TimeoutError:
            result = "timeout"
            _log.exception("timer_timeout", timer=self.name, timeout=self._timeout)
        except Exception:  # noqa: BLE001 - one failed run must not end the timer
            result = "error"
            _log.exception("timer_failed", timer=self.name)
        TIMER_RUNS.labels(self.name, result).inc()

    async def _call(self) -> None:
        if self._is_async:
            await self._function()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"timer-{self.name}")
        await asyncio.shield(run_blocking(self._pool, self._function))
