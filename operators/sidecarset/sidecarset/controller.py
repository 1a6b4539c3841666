"""Webhooks that default, validate and inject, and the controller that counts Pods and rolls out new images.

Injection is done by the API server's question at the creation of a Pod, on every replica; what runs already is changed
by the leader alone, a few Pods at a time.
"""

from __future__ import annotations

import asyncio

from sidecarset.api import SidecarSet
from sidecarset.defaulting import defaulted
from sidecarset.injecting import SKIPPED, injected
from sidecarset.planning import patch_for, plan
from sidecarset.selecting import matches, selector_of
from sidecarset.validation import conflicts, errors_of
from steersman import (
    ALL_NAMESPACES,
    Admission,
    Context,
    Invalid,
    Key,
    Operator,
    Result,
    Watch,
    WebhookOptions,
    key_of,
)
from steersman.client import ApiError, Conflict, NotFound
from steersman.k8s import Pod

AT_ONCE = 16
"""Requests under way at a time."""
QUIET = 0.05
"""Seconds without events of Pods before they are counted: Pods come and go in crowds."""
LATER = 1.0
"""Seconds until a write that found another Pod than expected is thought over again."""

operator = Operator("sidecarset")
operator.permit("patch", Pod)

_ELSEWHERE = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(SKIPPED)}]
}


@operator.defaults
def default(sidecars: SidecarSet) -> SidecarSet:
    return defaulted(sidecars)


@operator.validates(reads=[SidecarSet])
async def validate(sidecars: SidecarSet, old: SidecarSet | None, ctx: Admission) -> None:
    if sidecars.metadata.deletion_timestamp is not None:
        return  # its finalizers must be able to go
    if found := [*errors_of(sidecars), *conflicts(sidecars, ctx.list(SidecarSet))]:
        raise Invalid(found)


@operator.mutates(
    Pod,
    on="create",
    reads=[SidecarSet],
    options=WebhookOptions(namespace_selector=_ELSEWHERE, reinvocation="IfNeeded"),
)
async def inject(pod: Pod, ctx: Admission) -> Pod:
    return injected(pod, ctx.list(SidecarSet), ctx.namespace)


def sets_of(pod: Pod, ctx: Context) -> list[Key]:
    """Whom a change of a Pod concerns; asked for its old and its new labels."""
    return [key_of(sidecars) for sidecars in ctx.list(SidecarSet) if matches(sidecars, pod)]


@operator.controller(reads=[SidecarSet], watches=[Watch(Pod, to=sets_of)], debounce=QUIET)
async def reconcile(sidecars: SidecarSet, ctx: Context) -> Result:
    pods = ctx.list(Pod, namespace=ALL_NAMESPACES, labels=selector_of(sidecars.spec.selector))
    doing = plan(sidecars, pods)
    turns = asyncio.Semaphore(AT_ONCE)

    async def write(pod: Pod) -> bool:
        async with turns:
            return await _patch(sidecars, pod, ctx)

    written = await asyncio.gather(*map(write, (*doing.restamp, *doing.update)))
    for pod, done in zip(doing.update, written[len(doing.restamp) :], strict=True):
        if done:
            why = f"new images of SidecarSet {sidecars.metadata.name}, generation {sidecars.metadata.generation}"
            ctx.event("SidecarsUpdated", why, action="Update", about=pod)
    # What was written comes back as events of Pods; only what was refused would be forgotten.
    return Result(status=doing.status, requeue_after=None if all(written) else LATER)


async def _patch(sidecars: SidecarSet, pod: Pod, ctx: Context) -> bool:
    """Write one Pod; false where it is another one than it was."""
    try:
        await ctx.patch(pod, patch_for(sidecars, pod))
    except NotFound:
        return True
    except Conflict:
        return False
    except ApiError as problem:
        if problem.code != 422:
            raise
        ctx.log.info("a Pod has changed meanwhile", pod=str(key_of(pod)), problem=str(problem))
        return False
    return True
