"""Observes the hash of the object that each ConfigMonitor watches, and restarts Pods when it changes.

A change has two passes: the first records the Pods to restart in the status, the second restarts them. If the process
ends between or during them, the next process continues with the recorded uids. A restart of the operator, a relist or a
lost connection changes no hash and so restarts nothing.
"""

from __future__ import annotations

from steersman import Condition, Conditions, Context, Key, Result, Watch, get_condition, replace
from steersman.k8s import ConfigMap, DaemonSet, Deployment, Pod, ReplicaSet, Secret, StatefulSet
from steersman.models import key_of

from configmonitor import metrics
from configmonitor.api.v1.configmonitor_types import ConfigMonitor, ConfigMonitorStatus
from configmonitor.manager import operator
from configmonitor.plan import Seen, restart_for
from configmonitor.restarts import Outcome, carry_out
from configmonitor.self_selection import selects_the_operator
from configmonitor.source import Source, content_hash, source_of

SETTLE_SECONDS = 1.0
"""Seconds between the two passes, so that one restart covers changes that are applied together, and kubelets receive
the changes before they start new Pods."""
SELECTOR_RETRY_SECONDS = 60.0
"""Seconds until a selector without matches is evaluated again."""

operator.permit("list", Pod)
operator.permit("get", Pod)
operator.permit("create", Pod, subresource="eviction")
operator.permit("delete", Pod)
operator.permit("get", ReplicaSet)
for owner in (Deployment, StatefulSet, DaemonSet):
    operator.permit("get patch", owner)


def _index(monitor: ConfigMonitor) -> str:
    return f"{monitor.metadata.namespace}/{source_of(monitor.spec)}"


operator.index("source", ConfigMonitor, _index)


def _siblings(ctx: Context, namespace: str, source: Source) -> tuple[ConfigMonitor, ...]:
    """Return the ConfigMonitors that watch one object."""
    return ctx.list(ConfigMonitor, namespace=namespace, index=("source", f"{namespace}/{source}"))


def monitors_of(held: ConfigMap | Secret, ctx: Context) -> list[Key]:
    """Return the ConfigMonitors that watch a ConfigMap or Secret."""
    source = Source(type(held), held.metadata.name)
    return [key_of(monitor) for monitor in _siblings(ctx, held.metadata.namespace, source)]


@operator.controller(reads=[ConfigMonitor], watches=[Watch(ConfigMap, to=monitors_of), Watch(Secret, to=monitors_of)])
async def reconcile(monitor: ConfigMonitor, ctx: Context) -> Result:
    source = source_of(monitor.spec)
    status = monitor.status
    if monitor.spec.configmap and status.observed_generation != monitor.metadata.generation:
        ctx.event("DeprecatedField", "spec.configmap is deprecated: write spec.configMap", type="Warning")
    if await selects_the_operator(monitor, ctx):
        return _refuse(ctx, monitor)
    held = ctx.get(source.kind, source.name)
    if status.source != str(source):  # New, or the spec names another object.
        status = ConfigMonitorStatus(source=str(source), conditions=status.conditions)
    if held is not None:
        seen = await _see(held, status)
        if not status.observed_hash:
            status = replace(status, observed_hash=seen.hash, observed_version=seen.version)
        elif seen.hash != status.observed_hash:
            return await _begin(ctx, monitor, seen)
    outcome = Outcome()
    if status.restart is not None and status.restart.pending:
        outcome = await carry_out(ctx, monitor, status.restart)
        done = status.restart.total - len(outcome.pending)
        status = replace(status, restarted_pods=done, restart=replace(status.restart, pending=outcome.pending))
        if outcome.pending:
            reason = "RestartRefused" if outcome.refused else "RestartHindered"
            ctx.event(reason, outcome.hindrance, type="Warning", action="Restart")
            event = "restart_refused" if outcome.refused else "restart_hindered"
            ctx.log.warning(event, source=str(source), pending=len(outcome.pending), error=outcome.hindrance)
    selected = await _selects_pods(ctx, monitor)
    conditions = (_ready(source, held), _selected(monitor, selected), _restarting(status, outcome))
    after = outcome.retry_after if outcome.pending else None if selected else SELECTOR_RETRY_SECONDS
    status = replace(status, observed_generation=monitor.metadata.generation, conditions=conditions)
    return Result(status=status, requeue_after=after)


async def _see(held: ConfigMap | Secret, status: ConfigMonitorStatus) -> Seen:
    """Return the current content; a known resourceVersion is not hashed again."""
    version = held.metadata.resource_version
    if version == status.observed_version:
        return Seen(status.observed_hash, version)
    return Seen(await content_hash(held), version)


async def _begin(ctx: Context, monitor: ConfigMonitor, seen: Seen) -> Result:
    """Record the Pods to restart in the status (first pass); the restarts follow after this write."""
    # Pods come from the API server: the cache may receive the change before a Pod that started earlier, which must
    # not be missed. The siblings are read after the Pods; `restart_for` says why.
    pods = await ctx.fetch_list(Pod, labels=monitor.spec.pod_selector)
    source = source_of(monitor.spec)
    restart = restart_for(monitor, seen, pods, _siblings(ctx, monitor.metadata.namespace, source))
    metrics.CHANGES.labels(source.kind.__name__).inc()
    what = f"{restart.total} Pods are to be restarted" if restart.total else "no Pod is to be restarted by this monitor"
    ctx.event("ConfigChanged", f"{source} has changed: {what}", action="Restart")
    ctx.log.info("config_changed", source=str(source), pods=restart.total)
    status = replace(
        monitor.status,
        observed_hash=seen.hash,
        observed_version=seen.version,
        last_restart_time=ctx.now().replace(microsecond=0) if restart.total else monitor.status.last_restart_time,
        restarted_pods=0,
        restart=restart,
        conditions=(*_kept(monitor, "Ready", "PodsSelected"), _restarting_now(restart.total)),
    )
    return Result(status=status, requeue_after=SETTLE_SECONDS)


def _refuse(ctx: Context, monitor: ConfigMonitor) -> Result:
    message = "podSelector matches the operator's own Pod, which would have it restart itself: choose another label"
    ctx.event("SelectsOperator", message, type="Warning")
    conditions = (_condition("Ready", False, "SelectsOperator", message), *_kept(monitor, "PodsSelected"))
    return Result(
        status=replace(
            monitor.status, observed_generation=monitor.metadata.generation, restart=None, conditions=conditions
        )
    )


async def _selects_pods(ctx: Context, monitor: ConfigMonitor) -> bool:
    """Return whether the selector matches any Pod; reads for a new spec, and until it matches."""
    before = get_condition(monitor.status.conditions, "PodsSelected")
    if before is not None and before.status == "True" and before.observed_generation == monitor.metadata.generation:
        return True
    page = await ctx.client.list(Pod, namespace=monitor.metadata.namespace, labels=monitor.spec.pod_selector, limit=1)
    return bool(page.items)


def _condition(type: str, status: bool, reason: str, message: str) -> Condition:
    return Condition(type=type, status=str(status), reason=reason, message=message)


def _kept(monitor: ConfigMonitor, *types: str) -> Conditions:
    return tuple(condition for condition in monitor.status.conditions if condition.type in types)


def _ready(source: Source, held: ConfigMap | Secret | None) -> Condition:
    if held is None:
        message = (
            f"{source} does not exist; nothing is restarted when it appears, unless with other data than last seen"
        )
        return _condition("Ready", False, "SourceMissing", message)
    return _condition("Ready", True, "Watching", f"Pods are restarted when the data of {source} changes")


def _selected(monitor: ConfigMonitor, any_pod: bool) -> Condition:
    text = ",".join(f"{key}={value}" for key, value in sorted(monitor.spec.pod_selector.items()))
    if any_pod:
        return _condition("PodsSelected", True, "PodsFound", f"{text} matches Pods")
    return _condition("PodsSelected", False, "NoPods", f"no Pod of this namespace matches {text}")


def _restarting_now(total: int) -> Condition:
    if not total:
        return _condition("Restarting", False, "NothingToDo", "no Pod had to be restarted for the last change")
    return _condition("Restarting", True, "Restarting", f"{total} Pods are to be restarted")


def _restarting(status: ConfigMonitorStatus, outcome: Outcome) -> Condition:
    restart = status.restart
    if restart is None:
        return _condition("Restarting", False, "NoChange", "the data has not changed since it is watched")
    if outcome.pending:
        message = f"{len(outcome.pending)} of {restart.total} Pods are still to be restarted: {outcome.hindrance}"
        return _condition("Restarting", True, "Refused" if outcome.refused else "Hindered", message)
    if not restart.total:
        return _restarting_now(0)
    return _condition("Restarting", False, "Done", f"{restart.total} Pods were restarted for the last change")
