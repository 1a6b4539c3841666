"""Counts the Pods of every SidecarSet, and updates images of running Pods within the limits of the strategy.

The webhooks inject at the creation of a Pod, on every replica; only the leader changes running Pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from steersman import (
    ALL_NAMESPACES,
    Context,
    Key,
    Result,
    Watch,
    key_of,
    metadata_of,
)
from steersman.client import ApiError, Conflict, NotFound
from steersman.k8s import Pod

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet, SidecarSetStatus
from sidecarset.manager import operator
from sidecarset.rollout import patch_for, plan, refused_status
from sidecarset.selectors import matches, selector_of

MAX_CONCURRENT_REQUESTS = 16
"""The maximum number of concurrent requests."""
DEBOUNCE_SECONDS = 0.05
"""Seconds without events of Pods before a reconcile: Pods are often created and deleted together."""
CHANGED_RETRY_SECONDS = 1.0
"""Seconds until Pods are read again after a write that found another version than expected."""
REFUSED_RETRY_SECONDS = 30.0
"""Seconds until the retry of a denied write: a role or a policy may have changed."""

operator.permit("patch", Pod)


def sets_of(pod: Pod, ctx: Context) -> list[Key]:
    """Return the SidecarSets that select a Pod; called with its old and its new labels."""
    return [key_of(sidecars) for sidecars in ctx.list(SidecarSet) if matches(sidecars, pod)]


@operator.controller(reads=[SidecarSet], watches=[Watch(Pod, to=sets_of)], debounce=DEBOUNCE_SECONDS)
async def reconcile(sidecars: SidecarSet, ctx: Context) -> Result:
    pods = ctx.list(Pod, namespace=ALL_NAMESPACES, labels=selector_of(sidecars.spec.selector))
    doing = plan(sidecars, pods)
    slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def write(pod: Pod, reason: str) -> Written:
        async with slots:
            return await _patch(sidecars, pod, reason, ctx)

    writes = [write(pod, "same_containers") for pod in doing.restamp]
    writes += [write(pod, "images_changed") for pod in doing.update]
    written = await _all(writes)
    for pod, done in zip(doing.update, written[len(doing.restamp) :], strict=True):
        if done.outcome is Outcome.DONE:
            why = f"new images of SidecarSet {sidecars.metadata.name}, generation {sidecars.metadata.generation}"
            ctx.event("SidecarsUpdated", why, action="Update", about=pod)
    if denied := [each.message for each in written if each.outcome is Outcome.DENIED]:
        return _report_denied(doing.status, denied, ctx)
    # Successful writes return as events of Pods; changed Pods may not, so they need a requeue.
    changed = any(each.outcome is Outcome.CHANGED for each in written)
    return Result(status=doing.status, requeue_after=CHANGED_RETRY_SECONDS if changed else None)


class Outcome(Enum):
    """The outcome of a write."""

    DONE = "done"
    GONE = "the Pod does not exist any more"
    CHANGED = "the Pod has changed since it was read"
    DENIED = "the API server denies it"


class Written(NamedTuple):
    outcome: Outcome
    message: str = ""


async def _all(writes: Iterable[Coroutine[Any, Any, Written]]) -> list[Written]:
    """Return the results of all writes; raises the first failure after all have ended."""
    results = await asyncio.gather(*writes, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, Written)]


def _report_denied(status: SidecarSetStatus, denied: Sequence[str], ctx: Context) -> Result:
    """Report writes that the API server denies (a role, a policy, a webhook), and retry them later."""
    ctx.event("UpdateRefused", denied[0], type="Warning", action="Update")
    ctx.log.warning("update_refused", pods=len(denied), error=denied[0])
    return Result(status=refused_status(status, denied), requeue_after=REFUSED_RETRY_SECONDS)


async def _patch(sidecars: SidecarSet, pod: Pod, reason: str, ctx: Context) -> Written:
    """Patch one Pod."""
    try:
        await ctx.patch(pod, patch_for(sidecars, pod))
    except NotFound:
        return Written(Outcome.GONE)
    except Conflict:
        return Written(Outcome.CHANGED)
    except ApiError as problem:
        if not problem.is_refusal:
            raise
        # A failed test of the JSON patch is a 422, as is a denial by a policy: the current Pod shows which it was.
        if problem.code == 422 and await _has_changed(pod, ctx):
            return Written(Outcome.CHANGED)
        return Written(Outcome.DENIED, str(problem))
    ctx.log.info(
        "pod_updated",
        pod=str(key_of(pod)),
        reason=reason,
        sidecarset=sidecars.metadata.name,
        generation=sidecars.metadata.generation,
        images={container.name: container.image for container in sidecars.spec.containers},
    )
    return Written(Outcome.DONE)


async def _has_changed(pod: Pod, ctx: Context) -> bool:
    found = await ctx.fetch(metadata_of(Pod), pod.metadata.name, namespace=pod.metadata.namespace)
    return found is None or found.metadata.resource_version != pod.metadata.resource_version
