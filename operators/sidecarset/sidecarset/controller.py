"""Webhooks that default, validate and inject, and the controller that counts Pods and rolls out new images.

Injection is done by the API server's question at the creation of a Pod, on every replica; what runs already is changed
by the leader alone, a few Pods at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from sidecarset.api import SidecarSet, SidecarSetStatus
from sidecarset.defaulting import defaulted
from sidecarset.injecting import SKIPPED, injected
from sidecarset.planning import patch_for, plan, refused_status
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
    metadata_of,
)
from steersman.client import ApiError, Conflict, NotFound
from steersman.k8s import Pod
from steersman.telemetry.log import get_logger

AT_ONCE = 16
"""Requests under way at a time."""
QUIET = 0.05
"""Seconds without events of Pods before they are counted: Pods come and go in crowds."""
CHANGED_RETRY_SECONDS = 1.0
"""Time until Pods are read again after a write that met another Pod than expected."""
REFUSED_RETRY_SECONDS = 30.0
"""Time until a write that the API server has denied is tried again: a role or a policy may have been changed."""

log = get_logger("sidecarset")
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
    changed = injected(pod, ctx.list(SidecarSet), ctx.namespace)
    before = {container.name for container in pod.spec.containers}
    added = [container.name for container in changed.spec.containers if container.name not in before]
    if added and not ctx.dry_run:
        name = pod.metadata.name or f"{pod.metadata.generate_name}*"
        log.info("sidecars_injected", pod=name, namespace=ctx.namespace, containers=added, reason="pod_created")
    return changed


def sets_of(pod: Pod, ctx: Context) -> list[Key]:
    """Whom a change of a Pod concerns; asked for its old and its new labels."""
    return [key_of(sidecars) for sidecars in ctx.list(SidecarSet) if matches(sidecars, pod)]


@operator.controller(reads=[SidecarSet], watches=[Watch(Pod, to=sets_of)], debounce=QUIET)
async def reconcile(sidecars: SidecarSet, ctx: Context) -> Result:
    pods = ctx.list(Pod, namespace=ALL_NAMESPACES, labels=selector_of(sidecars.spec.selector))
    doing = plan(sidecars, pods)
    turns = asyncio.Semaphore(AT_ONCE)

    async def write(pod: Pod, reason: str) -> Written:
        async with turns:
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
    # What was written comes back as events of Pods; only what was refused would be forgotten.
    changed = any(each.outcome is Outcome.CHANGED for each in written)
    return Result(status=doing.status, requeue_after=CHANGED_RETRY_SECONDS if changed else None)


class Outcome(Enum):
    """What has become of a write."""

    DONE = "done"
    GONE = "the Pod does not exist any more"
    CHANGED = "the Pod has changed since it was read"
    DENIED = "the API server denies it"


class Written(NamedTuple):
    outcome: Outcome
    message: str = ""


async def _all(writes: Iterable[Coroutine[Any, Any, Written]]) -> list[Written]:
    """The results of all writes; raises the first failure after all have ended."""
    results = await asyncio.gather(*writes, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, Written)]


def _report_denied(status: SidecarSetStatus, denied: Sequence[str], ctx: Context) -> Result:
    """Report writes that the API server denies (a role, a policy, a webhook), and try them again later."""
    ctx.event("UpdateRefused", denied[0], type="Warning", action="Update")
    ctx.log.warning("update_refused", pods=len(denied), error=denied[0])
    return Result(status=refused_status(status, denied), requeue_after=REFUSED_RETRY_SECONDS)


async def _patch(sidecars: SidecarSet, pod: Pod, reason: str, ctx: Context) -> Written:
    """Write one Pod."""
    try:
        await ctx.patch(pod, patch_for(sidecars, pod))
    except NotFound:
        return Written(Outcome.GONE)
    except Conflict:
        return Written(Outcome.CHANGED)
    except ApiError as problem:
        if not problem.is_refusal:
            raise
        # A failed test of the JSON patch is a 422, as is a policy's denial: the Pod itself tells which one it was.
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
    found = await ctx.fetch(metadata_of(Pod), pod.metadata.name, pod.metadata.namespace)
    return found is None or found.metadata.resource_version != pod.metadata.resource_version
