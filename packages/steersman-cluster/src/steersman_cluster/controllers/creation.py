"""Creation of objects with generated names. A controller that does not see one of them would create another one.

Own writes are in the cache before the next reconcile, unless a watch is late for longer than reads wait. Therefore the
reconcile that creates such an object ends only when the cache has it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from steersman.client import ClientError
from steersman.k8s import Pod
from steersman.operator import Context

__all__ = ["create_pod", "create_seen"]

T = TypeVar("T")

_MAX_LATE_SECONDS: Final = 300
"""The controllers of Kubernetes wait as long for the events of what they have created."""


async def create_seen(ctx: Context, obj: T, *, owned: bool = True) -> T:
    """Create an object, and wait until the cache has it or it is deleted.

    Args:
        ctx: The context of the reconcile.
        obj: The object, of a kind that the controller caches.
        owned: Whether the reconciled object becomes the controlling owner.
    """
    made = await ctx.create(obj, owned=owned)
    kind = cast("type[Any]", type(obj))
    name: str = cast("Any", made).metadata.name
    for _ in range(_MAX_LATE_SECONDS):
        if ctx.get(kind, name) is not None:
            break
        with suppress(ClientError):
            if await ctx.fetch(kind, name) is None:
                break
        await asyncio.sleep(1.0)
    return made


async def create_pod(ctx: Context, pod: Pod) -> None:
    """Create a Pod of a workload as `create_seen` does, and record it as an Event of the workload."""
    made = await create_seen(ctx, pod, owned=False)
    ctx.event("SuccessfulCreate", f"Created pod: {made.metadata.name}", action="Create")
