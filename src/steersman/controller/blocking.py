"""Reconciles that are plain functions: they run in a bounded pool of threads (R6).

A thread cannot be interrupted. A reconcile that overstays its timeout is reported, and its key stays with it until
the thread ends, since another run beside it would break Q1.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["is_async", "run_blocking"]

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives an awaitable; an object with an async `__call__` counts."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def run_blocking(pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Start `function(*args)` in a thread, with this task's context variables; the future is not to be cancelled."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(function, *args))
