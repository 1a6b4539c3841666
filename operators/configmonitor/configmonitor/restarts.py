"""Restarts Pods by eviction, deletion, or a rollout of their owner.

Every request names the uid of the Pod, so that its replacement is safe and a repeated request has no effect. Restarts
that cannot be done now are returned with the reason; nothing here waits or retries.
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
from configmonitor.plan import runs

__all__ = ["Outcome", "carry_out", "template_annotation"]

MAX_CONCURRENT_REQUESTS = 16
"""The maximum number of concurrent requests."""
REFUSED_RETRY_SECONDS = 5.0
"""Seconds until the retry of a refused eviction, unless the API server requests more."""

MAX_REMEMBERED_PODS = 10_000
"""The maximum number of remembered uids of restarted Pods."""

_asked: dict[str, asyncio.Future[_Refused | None]] = {}
_gone: dict[str, None] = {}
"""Recently restarted Pods by uid, so that two ConfigMonitors do not send the same request. This only saves requests: a
second one for the same uid has no effect."""

Owner = Deployment | StatefulSet | DaemonSet
_ROLLING: Mapping[str, type[Owner]] = {kind.__name__: kind for kind in (Deployment, StatefulSet, DaemonSet)}


class Outcome(NamedTuple):
    """The result of one pass."""

    pending: tuple[PendingPod, ...] = ()
    hindrance: str = ""
    """The reason why the first of them is pending."""
    retry_after: float = REFUSED_RETRY_SECONDS
    refused: bool = False
    """Whether the API server denied a request (a role, a policy, a webhook); false for a budget."""


class _Refused(NamedTuple):
    pod: Pod
    why: str
    retry_after: float = REFUSED_RETRY_SECONDS
    denied: bool = False
    """Whether the API server would deny the same request again."""


async def carry_out(ctx: Context, monitor: ConfigMonitor, restart: Restart) -> Outcome:
    """Restart the pending Pods with the strategy of the spec, and return the remaining ones."""
    wanted = {pod.uid for pod in restart.pending}
    listed = await ctx.fetch_list(Pod, labels=restart.selector)
    pods = [pod for pod in listed if pod.metadata.uid in wanted and runs(pod)]
    refused: list[_Refused] = []
    if monitor.spec.strategy == "rollout":
        pods, refused = await _roll_out(ctx, monitor, restart, pods)
    gate = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def end(pod: Pod) -> _Refused | None:
        async with gate:
            return await _end(ctx, monitor, pod)

    # All requests have ended when this function returns or raises.
    ended = await asyncio.gather(*map(end, pods), return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException):
            raise one
        if one is not None:
            refused.append(one)
    if not refused:
        return Outcome()
    left = {one.pod.metadata.uid for one in refused}
    pending = tuple(pod for pod in restart.pending if pod.uid in left)
    # Denied requests come first: they need a change by a user, while a budget needs only time.
    first = min(refused, key=lambda one: (not one.denied, one.pod.metadata.name))
    why = f"Pod {first.pod.metadata.name}: {first.why}"
    return Outcome(pending, why, max(one.retry_after for one in refused), first.denied)


async def _end(ctx: Context, monitor: ConfigMonitor, pod: Pod) -> _Refused | None:
    """Restart one Pod, or return the refusal. Several ConfigMonitors share one request for the same Pod."""
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
        return _Refused(pod, causes or problem.status.message, max(problem.retry_after or 0.0, REFUSED_RETRY_SECONDS))
    except Conflict as problem:
        # Another Pod has the name, or a budget changed during the request; the next list of Pods decides.
        return _Refused(pod, problem.status.message, 0.5)
    except ApiError as problem:
        return _refusal(problem, pod, str(problem))
    _gone[pod.metadata.uid or ""] = None
    if len(_gone) > MAX_REMEMBERED_PODS:
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
    return _Refused(pod, why, max(problem.retry_after or 0.0, REFUSED_RETRY_SECONDS), problem.is_refusal)


async def _roll_out(
    ctx: Context, monitor: ConfigMonitor, restart: Restart, pods: Iterable[Pod]
) -> tuple[list[Pod], list[_Refused]]:
    """Start rollouts of the owners; returns Pods without such an owner, and refused changes."""
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
    """Change the template's annotation; returns false for an owner that would not replace its Pods."""
    found: Any = await ctx.fetch(kind, name)
    if found is None or _leaves_pods_alone(found):
        return False
    key, value = template_annotation(monitor.status.source), restart.hash
    metadata = found.spec.template.metadata
    if metadata is not None and metadata.annotations.get(key) == value:
        return True  # Another ConfigMonitor, or this one before a restart of the operator, has changed it.
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
    """Return whether a change of the template restarts no Pods; Deployments have no such strategy."""
    return isinstance(owner, DaemonSet | StatefulSet) and owner.spec.update_strategy.type == "OnDelete"


def template_annotation(source: str) -> str:
    """Return the key of the Pod template annotation with the hash of a watched object."""
    kind, _, name = source.partition("/")
    if len(name) > 40:
        name = f"{name[:31].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"configmonitor.magalix.com/{kind.lower()}.{name}"


class _Owners:
    """Finds the owner that rolls out a Pod: its controller, or the controller of its ReplicaSet."""

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
