"""Virtual time: an event loop whose clock jumps to the next timer whenever nothing is ready to run.

Hours of back-off, leases and resyncs pass in microseconds and always in the same order. A test on this loop does no
real I/O: what waits for a socket would wait for ever, and is reported as a deadlock instead.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

__all__ = ["DeadlockError", "VirtualTimeLoop", "virtual_time"]

P = ParamSpec("P")
T = TypeVar("T")


_PATIENCE = 2.0
"""Real seconds to wait for a thread's word before calling it a deadlock."""


class DeadlockError(AssertionError):
    """Every task waits for something that nothing scheduled will ever bring."""


class _InstantSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.advance: Callable[[float], None] = lambda _seconds: None
        self.waits_for_threads: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.waits_for_threads():
            return super().select(0.05 if timeout is None else min(timeout, 0.05))
        if timeout is None:
            if ready := super().select(_PATIENCE):  # a thread about to report back, as when an executor shuts down
                return ready
            raise DeadlockError("virtual time: every task is waiting and no timer is set")
        self.advance(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` moves only when nothing is ready, straight to the next timer.

    Work handed to `run_in_executor` is waited for in real time, since nobody can tell how long it takes.
    """

    def __init__(self, start: float = 1_000.0) -> None:
        selector = _InstantSelector()
        super().__init__(selector)
        self._virtual_now = start
        self._in_threads = 0
        selector.advance = self._advance
        selector.waits_for_threads = lambda: self._in_threads > 0

    def time(self) -> float:
        return self._virtual_now

    def _advance(self, seconds: float) -> None:
        self._virtual_now += max(0.0, seconds)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _future: object) -> None:
        self._in_threads -= 1


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an `async def` test on a `VirtualTimeLoop`; fails when the test leaves tasks behind."""

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

    # functools.wraps marks the coroutine function as what is wrapped; pytest must see a plain function.
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run
