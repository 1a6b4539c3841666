"""Restarting Pods: eviction, deletion, or a roll-out by their owner.

A Pod is only ever touched under its uid, so that what came in its place is safe, and asking twice for the same restart
does nothing the second time. What cannot be done now is returned, with what hinders; nothing here waits or retries.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from steersman import Context, MergePatch, metadata_of
from steersman.client import ApiError, Conflict, NotFound, Preconditions, TooManyRequests
from steersman.k8s import DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet
from steersman.models import OwnerReference

from configmonitor import metrics
from configmonitor.api.v1.configmonitor_types import ConfigMonitor, PendingPod, Restart
from configmonitor.planning import runs

__all__ = ["Outcome", "carry_out", "template_annotation"]

AT_ONCE = 16
"""Requests under way at a time."""
LATER = 5.0
"""Seconds until a refused eviction is tried again, unless the API server says more."""

REMEMBERED = 10_000
"""Pods that have been sent off lately."""

_asked: dict[str, asyncio.Future[_Refused | None]] = {}
_gone: dict[str, None] = {}
"""Pods by uid, so that two ConfigMonitors do not both ask for one to go. Only saves requests: a second one for the same
uid would do nothing."""

Owner = Deployment | StatefulSet | DaemonSet
_ROLLING: Mapping[str, type[Owner]] = {kind.__name__: kind for kind in (Deployment, StatefulSet, DaemonSet)}


class Outcome(NamedTuple):
    """What one pass left."""

    pending: tuple[PendingPod, ...] = ()
    hindrance: str = ""
    """Why the first of them is pending."""
    retry_after: float = LATER
    refused: bool = False
    """Whether the API server denied a request (a role, a policy, a webhook), and not a budget alone."""


class _Refused(NamedTuple):
    pod: Pod
    why: str
    retry_after: float = LATER
    denied: bool = False
    """Whether the API server would deny the same request again."""


async def carry_out(ctx: Context, monitor: ConfigMonitor, restart: Restart) -> Outcome:
    """Restart what is pending, as the spec says, and return what is left."""
    wanted = {pod.uid for pod in restart.pending}
    listed = await ctx.fetch_list(Pod, labels=restart.selector)
    pods = [pod for pod in listed if pod.metadata.uid in wanted and runs(pod)]
    refused: list[_Refused] = []
    if monitor.spec.strategy == "rollout":
        pods, refused = await _roll_out(ctx, monitor, restart, pods)
    gate = asyncio.Semaphore(AT_ONCE)

    async def end(pod: Pod) -> _Refused | None:
        async with gate:
            return await _end(ctx, monitor, pod)

    ended = await asyncio.gather(*map(end, pods), return_exceptions=True)  # none goes on after this function
    for one in ended:
        if isinstance(one, BaseException):
            raise one
        if one is not None:
            refused.append(one)
    if not refused:
        return Outcome()
    left = {one.pod.metadata.uid for one in refused}
    pending = tuple(pod for pod in restart.pending if pod.uid in left)
    # What is denied comes first: it needs a change of somebody, and a budget only needs time.
    first = min(refused, key=lambda one: (not one.denied, one.pod.metadata.name))
    why = f"Pod {first.pod.metadata.name}: {first.why}"
    return Outcome(pending, why, max(one.retry_after for one in refused), first.denied)


async def _end(ctx: Context, monitor: ConfigMonitor, pod: Pod) -> _Refused | None:
    """Have one Pod go, or say why not. Two ConfigMonitors that want the same Pod to go ask once for it."""
    uid = pod.metadata.uid or ""
    if uid in _gone:
        return None
    asked = _asked.get(uid)
    if asked is None:
        asked = _asked[uid] = asyncio.ensure_future(_ask(ctx, monitor, pod))
        asked.add_done_callback(lambda _: _asked.pop(uid, None))
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        asked.cancel()
        raise


async def _ask(ctx: Context, monitor: ConfigMonitor, pod: Pod) -> _Refused | None:
    force = monitor.spec.force
    name = pod.metadata.name
    this = Preconditions(uid=pod.metadata.uid)
    try:
        if force:
            await ctx.client.delete(Pod, name, namespace=pod.metadata.namespace, preconditions=this)
        else:
            await ctx.client.evict(name, namespace=pod.metadata.namespace, preconditions=this)
    except NotFound:
        return None
    except TooManyRequests as problem:
        metrics.REFUSED.inc()
        causes = "; ".join(cause.message for cause in problem.causes if cause.message)
        return _Refused(pod, causes or problem.status.message, max(problem.retry_after or 0.0, LATER))
    except Conflict as problem:
        # Its name has passed to another Pod, or a budget changed meanwhile; the next list of Pods tells which.
        return _Refused(pod, problem.status.message, 0.5)
    except ApiError as problem:
        return _refusal(problem, pod, str(problem))
    _gone[pod.metadata.uid or ""] = None
    if len(_gone) > REMEMBERED:
        del _gone[next(iter(_gone))]
    metrics.RESTARTED.labels("delete" if force else "evict").inc()
    how = "deleted" if force else "evicted"
    ctx.log.info(
        f"pod_{how}", pod=name, pod_uid=pod.metadata.uid, reason="config_changed", source=monitor.status.source
    )
    ctx.event("ConfigChanged", f"{monitor.status.source} has changed: {how}", action="Restart", about=pod)
    return None


def _refusal(problem: ApiError, pod: Pod, why: str) -> _Refused:
    metrics.REFUSED.inc()
    return _Refused(pod, why, max(problem.retry_after or 0.0, LATER), problem.is_refusal)


async def _roll_out(
    ctx: Context, monitor: ConfigMonitor, restart: Restart, pods: Iterable[Pod]
) -> tuple[list[Pod], list[_Refused]]:
    """Have owners roll out anew; returns the Pods that no owner rolls out, and those whose owner could not be told."""
    owned: dict[tuple[str, str], list[Pod]] = {}
    alone: list[Pod] = []
    refused: list[_Refused] = []
    owners = _Owners(ctx)
    for pod in pods:
        reference = await owners.of(pod)
        if reference is None:
            alone.append(pod)
        else:
            owned.setdefault(reference, []).append(pod)
    for (kind, name), members in owned.items():
        try:
            rolled = await _roll(ctx, monitor, restart, _ROLLING[kind], name)
        except NotFound:
            rolled = False
        except ApiError as problem:
            refused += [_refusal(problem, pod, f"{kind} {name}: {problem}") for pod in members]
            continue
        if not rolled:
            alone += members
    return alone, refused


async def _roll(ctx: Context, monitor: ConfigMonitor, restart: Restart, kind: type[Owner], name: str) -> bool:
    """Change the template's annotation; false for an owner that would not replace its Pods by itself."""
    found: Any = await ctx.fetch(kind, name)
    if found is None or _leaves_pods_alone(found):
        return False
    key, value = template_annotation(monitor.status.source), restart.hash
    metadata = found.spec.template.metadata
    if metadata is not None and metadata.annotations.get(key) == value:
        return True  # another ConfigMonitor, or this one before it was restarted, has done it
    body = {
        "metadata": {"uid": found.metadata.uid},
        "spec": {"template": {"metadata": {"annotations": {key: value}}}},
    }
    await ctx.patch(found, MergePatch(body))
    metrics.RESTARTED.labels("rollout").inc()
    ctx.log.info(
        "rollout_started",
        owner_kind=kind.__name__,
        owner=name,
        reason="config_changed",
        source=monitor.status.source,
    )
    ctx.event("ConfigChanged", f"{monitor.status.source} has changed: rolled out anew", action="Restart", about=found)
    return True


def _leaves_pods_alone(owner: Any) -> bool:
    strategy = getattr(owner.spec, "update_strategy", None)
    return strategy is not None and strategy.type == "OnDelete"


def template_annotation(source: str) -> str:
    """The annotation on a Pod template that holds the hash of a watched object."""
    kind, _, name = source.partition("/")
    if len(name) > 40:
        name = f"{name[:31].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"configmonitor.magalix.com/{kind.lower()}.{name}"


class _Owners:
    """Who rolls out a Pod: what controls it, or what controls its ReplicaSet. Each ReplicaSet is read once."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._sets: dict[str, tuple[str, str] | None] = {}

    async def of(self, pod: Pod) -> tuple[str, str] | None:
        controller = _controller(pod.metadata.owner_references)
        if controller is None or controller.api_version != "apps/v1":
            return None
        if controller.kind != "ReplicaSet":
            return (controller.kind, controller.name) if controller.kind in _ROLLING else None
        if controller.name not in self._sets:
            found = await self._ctx.fetch(metadata_of(ReplicaSet), controller.name)
            above = _controller(found.metadata.owner_references) if found is not None else None
            known = above is not None and above.api_version == "apps/v1" and above.kind in _ROLLING
            self._sets[controller.name] = (above.kind, above.name) if above is not None and known else None
        return self._sets[controller.name]


def _controller(references: Iterable[OwnerReference]) -> OwnerReference | None:
    return next((reference for reference in references if reference.controller), None)
