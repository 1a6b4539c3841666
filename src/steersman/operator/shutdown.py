"""The steps of a replica that stops: controllers within the grace period, tasks, the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from steersman.cache import Cache
from steersman.operator.controller_set import ControllerSet
from steersman.telemetry.log import get_logger

__all__ = ["cancel_and_wait", "close_cache", "first_completed", "stop_controllers"]

log = get_logger("operator")

_CLOSE_TIMEOUT_SECONDS = 5.0


async def stop_controllers(
    controllers: ControllerSet,
    timers: Sequence[asyncio.Task[Any]],
    lease: asyncio.Task[Any] | None,
    grace: float,
) -> None:
    """Stop the controllers and wait for running reconciles and timers; without the lease, stop them at once.

    Args:
        controllers: The controllers.
        timers: The tasks of timers, which end when their running call ends.
        lease: Renews the lease and ends when the lease is lost; `None` without leader election.
        grace: Seconds that reconciles and timers have to end.
    """
    stopping = [asyncio.ensure_future(each.controller.stop(grace)) for each in controllers.controllers]
    ending: list[Awaitable[Any]] = [*stopping]
    if timers:
        ending.append(asyncio.wait(timers, timeout=grace))
    if lease is None or lease.done():
        await asyncio.gather(*ending)
        return
    # The lease is renewed while reconciles finish. If it is lost meanwhile, none of them can write any more.
    finishing = asyncio.ensure_future(asyncio.gather(*ending))
    await first_completed(finishing, lease)
    if not finishing.done():
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)
        await asyncio.gather(*(each.controller.stop(0.0) for each in controllers.controllers))


async def first_completed(*tasks: asyncio.Future[Any]) -> None:
    """Wait until one of the tasks has ended; its exception is not raised."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end.

    A cancellation is lost if the task gets a result at the same time, so it is repeated each second.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=1.0)


async def close_cache(cache: Cache) -> None:
    """Close the cache within a time limit: a watch that does not end must not keep the lease."""
    closing = asyncio.create_task(cache.close())
    _, late = await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_SECONDS)
    if late:
        log.warning("watch_abandoned")
        closing.cancel()
    else:
        closing.result()
