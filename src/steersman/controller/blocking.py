"""Reconciles that are plain functions: they run in a bounded pool of threads (R6).

A thread cannot be interrupted. A reconcile that overstays its timeout is reported, and its key stays with it until
the thread ends, since another run beside it would break Q1. What it asks of the loop has an end even where the loop
has ended first.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, Final, TypeVar

__all__ = ["LoopEndedError", "is_async", "run_blocking", "run_in_loop"]

T = TypeVar("T")

_LOOK: Final = 0.5
"""Seconds between two looks at whether the loop that is to answer is still there."""


class LoopEndedError(RuntimeError):
    """The loop ended before it did what a thread asked of it: nobody waits for the answer any more."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives an awaitable; an object with an async `__call__` counts."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def run_blocking(pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Start `function(*args)` in a thread, with this task's context variables; the future is not to be cancelled."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(function, *args))


def run_in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], within: float | None = None) -> T:
    """Have `loop` run `work`, and wait for its result, from another thread; for `within` seconds at most.

    Raises what `work` raises, `TimeoutError` when the time is over, and `LoopEndedError` when the loop is closed: work
    that is given to a loop between its last turn and its closing is never begun, and waiting for it would never end.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError as problem:
        work.close()
        raise LoopEndedError(str(problem)) from None
    left = float("inf") if within is None else within
    while not wait_for([future], min(_LOOK, left)).done:
        left -= _LOOK
        if loop.is_closed():
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
            raise LoopEndedError("the event loop has ended")
        if left <= 0:
            future.cancel()
            raise TimeoutError(f"the event loop did not answer within {within:g} s")
    return future.result()
