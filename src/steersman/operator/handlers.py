"""Calls of functions that an operator declares: start-up hooks, shutdown hooks and timers."""

from __future__ import annotations

import asyncio

from steersman.operator.cache_reader import CacheReader
from steersman.operator.context import Context, SyncContext
from steersman.operator.declarations import Handler
from steersman.operator.operator import Operator
from steersman.operator.runtime import Runtime
from steersman.telemetry.log import get_logger

__all__ = ["StartupHookError", "call_handler", "run_hooks"]

log = get_logger("operator")


class StartupHookError(Exception):
    """A start-up hook raised an exception, so the operator does not start."""


async def run_hooks(operator: Operator, when: str, runtime: Runtime, reader: CacheReader) -> None:
    """Run the hooks of an operator, one after the other.

    Args:
        operator: The operator.
        when: `startup` or `shutdown`.
        runtime: The runtime of the replica.
        reader: Reads from the cache.

    Raises:
        StartupHookError: A start-up hook raised an exception. Those of shutdown hooks are logged only.
    """
    for hook in operator.hooks:
        if hook.when != when:
            continue
        try:
            await reader.wait_for_own_writes()
            await call_handler(hook.handler, runtime, reader)
        except Exception as problem:
            log.exception("hook_failed", when=when, declared=str(hook.place))
            if when == "startup":
                raise StartupHookError(f"{hook.place}: the start-up hook failed: {problem!r}") from problem


async def call_handler(handler: Handler, runtime: Runtime, reader: CacheReader) -> None:
    """Call a function with a new context if it takes one; a function that is not async runs in a thread."""
    context = Context(runtime, reader)
    if handler.is_async:
        await (handler.call(context) if handler.takes_context else handler.call())
        return
    blocking = SyncContext(context, asyncio.get_running_loop())
    await asyncio.to_thread(handler.call, *((blocking,) if handler.takes_context else ()))
