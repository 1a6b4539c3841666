"""`Periodic`: a function that runs every so often, for work that no event announces (`@operator.every(30)`).

One run at a time: a run that takes longer than the interval delays the next, it is never joined by it. A failure is
logged and counted, and the next run comes at its time. Works on the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from steersman.controller.blocking import is_async, run_blocking
from steersman.telemetry.log import get_logger
from steersman.telemetry.metrics import counter

__all__ = ["Periodic"]

_log = get_logger("timer")
_runs = counter("steersman_timer_runs", "Runs of periodic functions by result.", ("timer", "result"))


class Periodic:
    """Runs `function` every `seconds`, first after `initial_delay` (0: at once).

    `jitter` moves each run by up to that share of the interval, so that replicas and timers do not march in step. The
    grid does not drift: runs that were missed are skipped, not made up for. `timeout` (seconds) cuts an async run off.
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
            raise ValueError(f"timer {name!r}: every {seconds} s makes no sense, use a number above 0")
        if not 0 <= jitter < 1:
            raise ValueError(f"timer {name!r}: jitter={jitter}, needs a share from 0 up to 1")
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
        """Run until `stop` (then after the run under way) or until cancelled (then at once)."""
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
        """Let the run under way finish, and start no other."""
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
            _log.exception("timer was cut off", timer=self.name, timeout=self._timeout)
        except Exception:  # noqa: BLE001 - one failed run must not end the timer
            result = "error"
            _log.exception("timer failed", timer=self.name)
        _runs.labels(self.name, result).inc()

    async def _call(self) -> None:
        if self._is_async:
            await self._function()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"timer-{self.name}")
        await asyncio.shield(run_blocking(self._pool, self._function))
