"""The node life cycle: unresponsive nodes get the conditions Unknown and taints, and their Pods are evicted.

A node is healthy while its Lease is renewed. A Pod leaves a tainted node as its tolerations say: at once without one,
and after `tolerationSeconds` with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from steersman.controller import Result
from steersman.k8s import Lease, Node, Pod
from steersman.k8s.core_v1 import NodeCondition, Taint
from steersman.models import ALL_NAMESPACES, Key, MergePatch, StrategicMergePatch, key_of, to_dict
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.pods import NODE_INDEX, is_ready, phase_of
from steersman_cluster.controllers.scheduling.node_fit import tolerates

__all__ = ["evicted_at", "register", "taints_for"]

LEASES = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED_TAINTS = {NOT_READY, UNREACHABLE, "node.kubernetes.io/unschedulable", *_PRESSURE.values()}


def register(operator: Operator, *, grace: float = 50.0) -> None:
    """Declare the controllers; a node is silent when its Lease was not renewed for `grace` seconds."""

    async def watch_over(node: Node, ctx: Context) -> Result:
        return await _check_heartbeat(node, ctx, grace)

    operator.controller(name="node-lifecycle", reads=[Pod], watches=[Watch(Lease, to=_to_node)])(watch_over)
    operator.controller(name="taint-eviction", watches=[Watch(Node, to=_to_pods)], reads=[Pod], where=_is_placed)(evict)


def _to_node(lease: Lease) -> Key | None:
    return Key("", lease.metadata.name) if lease.metadata.namespace == LEASES else None


def _to_pods(node: Node, ctx: Context) -> Iterable[Key]:
    if not any(t.effect == "NoExecute" for t in node.spec.taints):
        return ()
    return [key_of(p) for p in ctx.list(Pod, index=(NODE_INDEX, node.metadata.name), namespace=ALL_NAMESPACES)]


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _condition(node: Node, type: str) -> NodeCondition | None:
    return next((c for c in node.status.conditions if c.type == type), None)


def taints_for(node: Node, ready: str, now: datetime) -> list[Taint]:
    """The taints a node should have: others' as they are, ours by its conditions, with the time they began."""
    keys: list[tuple[str, str]] = []
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        keys += [(key, "NoSchedule"), (key, "NoExecute")]
    for pressure, key in _PRESSURE.items():
        condition = _condition(node, pressure)
        if condition is not None and condition.status == "True":
            keys.append((key, "NoSchedule"))
    if node.spec.unschedulable:
        keys.append(("node.kubernetes.io/unschedulable", "NoSchedule"))
    present = node.spec.taints
    known = {(t.key, t.effect): t for t in present}
    mine = [
        known.get((key, effect))
        or Taint(key=key, effect=effect, time_added=now.replace(microsecond=0) if effect == "NoExecute" else None)
        for key, effect in keys
    ]
    return [*(t for t in present if t.key not in _MANAGED_TAINTS), *mine]


async def _check_heartbeat(node: Node, ctx: Context, grace: float) -> Result:
    now = ctx.now()
    lease = ctx.get(Lease, node.metadata.name, namespace=LEASES)
    renewed: Any = lease.spec.renew_time if lease is not None else None
    condition = _condition(node, "Ready")
    heartbeat = (
        renewed or (condition.last_heartbeat_time if condition else None) or node.metadata.creation_timestamp or now
    )
    silent = now - heartbeat > timedelta(seconds=grace)
    ready = condition.status if condition is not None else "False"
    if silent and ready != "Unknown":
        await _mark_unknown(node, ctx, now)
        ready = "Unknown"
        ctx.event("NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady", action="Monitor")
    if silent or ready != "True":
        await _mark_pods(node, ctx, now)
    taints = taints_for(node, ready, now)
    if sorted(map(str, taints)) != sorted(map(str, node.spec.taints)):
        metadata = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
        await ctx.patch(node, MergePatch({"metadata": metadata, "spec": {"taints": [*map(to_dict, taints)] or None}}))
    left = (heartbeat + timedelta(seconds=grace) - now).total_seconds()
    return Result(requeue_after=max(0.1, left + 0.1) if not silent else grace)


async def _mark_unknown(node: Node, ctx: Context, now: datetime) -> None:
    """Say that nothing is known of the node any more."""
    when = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    unknown = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": when,
    }
    types = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    known = {c.type for c in node.status.conditions}
    conditions = [{"type": name, **unknown} for name in types if name in known or name == "Ready"]
    body = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}}
    await ctx.patch(node, StrategicMergePatch(body), subresource="status")


async def _mark_pods(node: Node, ctx: Context, now: datetime) -> None:
    """Pods of a node that is not ready are not ready either."""
    when = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in ctx.list(Pod, index=(NODE_INDEX, node.metadata.name), namespace=ALL_NAMESPACES):
        if is_ready(pod):
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": when}
            body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
            await ctx.patch(pod, StrategicMergePatch(body), subresource="status")


def evicted_at(pod: Pod, taints: Sequence[Taint], now: datetime) -> datetime | None:
    """Return when a Pod has to leave its node: now, later, or never (`None`)."""
    tolerations = pod.spec.tolerations
    ends: list[datetime] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [t for t in tolerations if tolerates(t, taint)]
        if not matching:
            return now
        seconds = [t.toleration_seconds for t in matching if t.toleration_seconds is not None]
        if seconds:
            ends.append((taint.time_added or now) + timedelta(seconds=max(0, min(seconds))))
    return min(ends, default=None)


async def evict(pod: Pod, ctx: Context) -> Result | None:
    """Delete a Pod when its toleration of a taint expires."""
    node = ctx.get(Node, pod.spec.node_name) if pod.spec.node_name else None
    if node is None or phase_of(pod) in ("Succeeded", "Failed"):
        return None
    at = evicted_at(pod, node.spec.taints, ctx.now())
    if at is None:
        return None
    left = (at - ctx.now()).total_seconds()
    if left > 0:
        return Result(requeue_after=left)
    whole = f"{pod.metadata.namespace}/{pod.metadata.name}"
    ctx.event("TaintManagerEviction", f"Marking for deletion Pod {whole}", action="Evict")
    await ctx.delete(pod)
    return None
