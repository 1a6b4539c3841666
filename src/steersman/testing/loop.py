"""Virtual time: an event loop whose clock jumps to the next timer whenever nothing is ready to run.

Hours of back-off, leases and resyncs pass in microseconds and always in the same order. A test on this loop does no
real I/O: a task that waits for a socket can never continue, and the loop reports a deadlock instead. Callbacks that
schedule each other without any time passing are reported as a lack of progress.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import selectors
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from steersman.controller.watchdog import UnwatchedLoop

__all__ = ["DeadlockError", "NoProgressError", "VirtualTimeLoop", "virtual_time"]

P = ParamSpec("P")
T = TypeVar("T")


THREAD_REPORT_SECONDS: Final = 2.0
"""Real seconds for a thread to report a result before the loop raises `DeadlockError`."""
MAX_STEPS_PER_INSTANT: Final = 1_000_000
"""Passes of the loop at one instant of virtual time before it raises `NoProgressError`: some ten seconds of CPU. A test
that sends ten thousand requests in a row, which take no virtual time, needs fewer than a tenth of them.
"""
SAMPLED_STEPS: Final = 1_000
"""The number of last passes before the error in which the loop counts the callbacks."""
REPORTED_CALLBACKS: Final = 10


class DeadlockError(AssertionError):
    """Every task waits, and no timer and no thread can resume any of them."""


class NoProgressError(AssertionError):
    """Callbacks run without an end and the virtual time does not advance; the message counts the callbacks."""


class _InstantSelector(selectors.SelectSelector):
    def __init__(self, thread_report_seconds: float) -> None:
        super().__init__()
        self.step: Callable[[], None] = lambda: None
        self.advance: Callable[[float], None] = lambda _seconds: None
        self.waits_for_threads: Callable[[], bool] = lambda: False
        self._thread_report_seconds = thread_report_seconds

    def select(self, timeout: float | None = None) -> Any:
        self.step()
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.waits_for_threads():
            return super().select(0.05 if timeout is None else min(timeout, 0.05))
        if timeout is None:
            if ready := super().select(self._thread_report_seconds):  # An executor that shuts down reports late.
                return ready
            raise DeadlockError("virtual time: every task is waiting and no timer is set")
        self.advance(timeout)
        return ready


class VirtualTimeLoop(UnwatchedLoop, asyncio.SelectorEventLoop):
    """An event loop whose `time()` changes only when no callback is ready, to the time of the next timer.

    A timer fires at exactly its own time, never earlier. The loop waits in real time for work in `run_in_executor`,
    whose duration it cannot know.

    Args:
        start: The virtual time at the beginning, in seconds.
        max_steps: Passes of the loop that may happen without any time passing. The run then ends with
            `NoProgressError`, whose message counts the callbacks of the last passes.
        thread_report_seconds: Real seconds to wait for a thread's result before `DeadlockError`.
    """

    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle]
    _clock_resolution: float

    def __init__(
        self,
        start: float = 1_000.0,
        *,
        max_steps: int = MAX_STEPS_PER_INSTANT,
        thread_report_seconds: float = THREAD_REPORT_SECONDS,
    ) -> None:
        selector = _InstantSelector(thread_report_seconds)
        super().__init__(selector)
        self._in_threads = 0
        self._max_steps = max_steps
        self._steps = 0
        self._callbacks: Counter[str] = Counter()
        self._set_time(start)
        selector.step = self._step
        selector.advance = self._advance
        selector.waits_for_threads = lambda: self._in_threads > 0

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._virtual_now

    def _set_time(self, now: float) -> None:
        self._virtual_now = now
        # asyncio fires timers up to one clock resolution before their time. A callback that finds its time still ahead
        # and arms the same timer again would then run for ever, because this clock does not move while it runs.
        self._clock_resolution = math.ulp(now)
        self._steps = 0
        self._callbacks.clear()

    def _advance(self, seconds: float) -> None:
        target = self._virtual_now + max(0.0, seconds)
        if self._scheduled:
            due = self._scheduled[0].when()
            # `now + (due - now)` may differ from `due` by a rounding error; a longer sleep was capped by asyncio.
            if math.isclose(due, target, rel_tol=1e-12, abs_tol=1e-9):
                target = due
        self._set_time(max(target, self._virtual_now))

    def _step(self) -> None:
        if self._in_threads:  # Real time passes here.
            self._steps = 0
            return
        self._steps += 1
        if self._steps > self._max_steps - min(SAMPLED_STEPS, self._max_steps):
            self._callbacks.update(_name_of(handle) for handle in self._runnable() if not handle.cancelled())
        if self._steps > self._max_steps:
            counted = ", ".join(f"{name} {n} times" for name, n in self._callbacks.most_common(REPORTED_CALLBACKS))
            steps = self._steps
            self._set_time(self._virtual_now)  # The cleanup after the failure has a separate limit.
            raise NoProgressError(
                f"virtual time: {steps - 1} passes of the loop without any time passing; in the last "
                f"{min(SAMPLED_STEPS, steps)} ran: {counted or 'only timers'}"
            )

    def _runnable(self) -> Iterator[asyncio.Handle]:
        """Yield what the next pass runs: callbacks that are ready, then timers that are due."""
        yield from self._ready
        yield from (timer for timer in self._scheduled if timer.when() <= self._virtual_now)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run `func` in a thread; the loop waits for it in real time."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _future: object) -> None:
        self._in_threads -= 1


def _name_of(handle: asyncio.Handle) -> str:
    """Return the name of a handle: the task and its coroutine, or the function."""
    callback: Any = getattr(handle, "_callback", None)
    owner: Any = getattr(callback, "__self__", None)
    if (task := next((one for one in asyncio.all_tasks() if one is owner), None)) is not None:
        return f"task {task.get_name()} ({getattr(task.get_coro(), '__qualname__', '')})"
    return str(getattr(callback, "__qualname__", None) or callback)


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an `async def` test on a `VirtualTimeLoop`; fails if the test leaves tasks behind."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        async def guarded() -> T:
            result = await test(*args, **kwargs)
            await asyncio.sleep(0)
            left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()]
            assert not left, f"tasks left behind: {left}"
            return result

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(guarded())

    # functools.wraps marks the coroutine function as the wrapped one; pytest must see a plain function.
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run
