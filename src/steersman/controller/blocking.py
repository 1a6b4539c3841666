"""Runs synchronous functions in a bounded pool of threads (R6), and lets them call the event loop.

A thread cannot be interrupted. A reconcile that exceeds its timeout is logged, and its key stays assigned until the
thread ends, because a second run in parallel would violate Q1. Calls into the event loop end even if the loop has
ended.
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

_POLL_SECONDS: Final = 0.5
"""Seconds between two checks whether the event loop still exists."""


class LoopEndedError(RuntimeError):
    """The event loop ended before it completed the call of a thread."""


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether `function` is a coroutine function or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def run_blocking(pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Start `function(*args)` in a thread with this task's context variables; do not cancel the future."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(function, *args))


def run_in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], within: float | None = None) -> T:
    """Run `work` in `loop` from another thread, and return its result.

    Args:
        loop: The event loop.
        work: The coroutine.
        within: The timeout in seconds; `None` waits without limit.

    Raises:
        TimeoutError: The timeout has passed.
        LoopEndedError: The loop is closed. A coroutine that arrives after its last iteration would never run.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError as problem:
        work.close()
        raise LoopEndedError(str(problem)) from None
    left = float("inf") if within is None else within
    while not wait_for([future], min(_POLL_SECONDS, left)).done:
        left -= _POLL_SECONDS
        if loop.is_closed():
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
            raise LoopEndedError("the event loop has ended")
        if left <= 0:
            future.cancel()
            raise TimeoutError(f"the event loop did not answer within {within:g} s")
    return future.result()
