"""`Context.enqueue`: reconciles for changes that no watch reports."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from steersman import Context, Operator, Result, SyncContext
from steersman.testing.cluster import Cluster
from steersman.testing.running import Operators

from . import webs

bells = Operator("bells")
CONTEXTS: list[tuple[Context, asyncio.AbstractEventLoop]] = []
REASONS: list[tuple[str, ...]] = []


@bells.controller
async def ring(web: webs.Web, ctx: Context) -> Result:
    assert ctx.request is not None
    CONTEXTS.append((ctx, asyncio.get_running_loop()))
    REASONS.append(ctx.request.reasons)
    return Result()


def test_calls_after_the_reconcile_lead_to_one_more_reconcile(cluster: Cluster, operator: Operators) -> None:
    CONTEXTS.clear()
    REASONS.clear()
    running = operator(bells)
    cluster.apply(webs.web("one"))
    running.wait_idle()
    before = len(REASONS)
    ctx, loop = CONTEXTS[-1]

    def ring_twice() -> None:
        ctx.enqueue("the door")
        ctx.enqueue("the door")

    loop.call_soon_threadsafe(ring_twice)
    running.wait_idle()
    assert REASONS[before:] == [("the door",)]


async def test_a_plain_function_calls_it_from_its_thread() -> None:
    added: list[Any] = []
    request = SimpleNamespace(key="shop/web")
    runtime, reader = cast(Any, SimpleNamespace(log=None)), cast(Any, None)
    ctx = Context(runtime, reader, cast(Any, request), add=lambda *call: added.append(call))
    await asyncio.to_thread(SyncContext(ctx, asyncio.get_running_loop()).enqueue, "the door")
    assert [(key, reason) for key, _, reason in added] == [("shop/web", "the door")]


def test_there_is_nothing_to_reconcile_in_a_timer() -> None:
    ctx = Context(cast(Any, SimpleNamespace(log=None)), cast(Any, None))
    with pytest.raises(ValueError, match="no reconciled object"):
        ctx.enqueue()
