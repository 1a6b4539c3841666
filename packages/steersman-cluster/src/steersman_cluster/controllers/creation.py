"""Creation of objects with generated names. A controller that does not see one of them would create another one.

Own writes are in the cache before the next reconcile, unless a watch is late for longer than reads wait. Therefore the
reconcile that creates such an object ends only when the cache has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from steersman.client import AlreadyExists, ClientError
from steersman.k8s import Pod
from steersman.operator import Context
from steersman_cluster.controllers.terminating_namespaces import is_namespace_terminating

__all__ = ["create_pods", "create_seen"]

T = TypeVar("T")

_MAX_LATE_SECONDS: Final = 300
"""The time for which controllers of Kubernetes wait for the events of objects that they have created."""


async def create_seen(ctx: Context, obj: T) -> T:
    """Create an object that the reconciled object owns, and wait until the cache has it or it is deleted."""
    made = await ctx.create(obj)
    await _seen(ctx, made)
    return made


async def create_pods(ctx: Context, pods: Sequence[Pod]) -> ClientError | None:
    """Create the Pods of a workload, and wait until the cache has them; return the error that prevented one.

    They are created in batches of 1, 2, 4, …, which end after the batch in which one fails, so that a refusal (a quota,
    an admission webhook) costs one request instead of hundreds.
    """
    created: list[Pod] = []

    async def create(pod: Pod) -> None:
        made = await ctx.create(pod, owned=False)
        created.append(made)
        ctx.event("SuccessfulCreate", f"Created pod: {made.metadata.name}", action="Create")

    problem = await _in_batches(pods, create)
    await asyncio.gather(*(_seen(ctx, pod) for pod in created))
    return problem


async def _in_batches(pods: Sequence[Pod], create: Callable[[Pod], Awaitable[None]]) -> ClientError | None:
    size, done = 1, 0
    while done < len(pods):
        results = await asyncio.gather(*map(create, pods[done : done + size]), return_exceptions=True)
        for result in results:
            if isinstance(result, AlreadyExists):
                continue
            if isinstance(result, ClientError):
                return None if is_namespace_terminating(result) else result
            if isinstance(result, BaseException):
                raise result
        done, size = done + size, size * 2
    return None


async def _seen(ctx: Context, obj: Any) -> None:
    kind, name = cast("type[Any]", type(obj)), obj.metadata.name
    for _ in range(_MAX_LATE_SECONDS):
        if ctx.get(kind, name) is not None:
            return
        with suppress(ClientError):
            if await ctx.fetch(kind, name) is None:
                return
        await asyncio.sleep(1.0)
