"""The number of members for the connections of the read replicas.

As in a HorizontalPodAutoscaler, the wanted number of replicas is the present one times the ratio of use and target,
rounded up, without a change within a tolerance. The operator changes `spec.size`, as `kubectl scale` does.

Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple, TypeVar

from steersman import Context, MergePatch, replace

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import Autoscaling, AutoscalingStatus, MySQLCluster
from mysqlcluster.machine import ClusterState
from mysqlcluster.observation import MemberState, Observation
from mysqlcluster.status import state_of, time_text
from mysqlcluster.storing import store_status

__all__ = ["Scaling", "autoscale", "next_size"]

TOLERANCE = 0.1

C = TypeVar("C", MySQLCluster, CompactCluster)


class Scaling(NamedTuple):
    """The number of members, and the status to store."""

    size: int
    status: AutoscalingStatus
    reason: str = ""
    """Why the size changes; empty if it does not."""


def next_size(
    spec: Autoscaling,
    size: int,
    status: AutoscalingStatus,
    state: ClusterState,
    seen: Observation,
    now: datetime,
    *,
    updating: bool = False,
) -> Scaling:
    """Return the number of members of a cluster.

    Args:
        spec: The bounds and the target.
        size: The present number.
        status: The stored status.
        state: The stored state of the cluster.
        seen: The members.
        now: The time.
        updating: An upgrade is in progress; the size does not change.
    """
    low, high = spec.min_size or 1, spec.max_size or size
    if not low <= size <= high:
        bound = min(max(size, low), high)
        return Scaling(bound, AutoscalingStatus(), f"spec.autoscaling allows {low} to {high} members")
    replicas = [each for each in seen.members if each.name != state.primary and each.max_connections]
    if updating or not _is_settled(state, replicas, size):
        return Scaling(size, status)
    # A cluster of one member has no replica: its primary serves the reads.
    measured = replicas or [each for each in seen.members if each.max_connections]
    use = 100 * sum(each.connections / each.max_connections for each in measured) / max(1, len(measured))
    ratio = use / spec.target_connections_percent
    wanted = len(replicas) if abs(ratio - 1) <= TOLERANCE else ceil(max(1, len(replicas)) * ratio)
    target = min(max(1 + wanted, low), high)
    seen_use = AutoscalingStatus(connections_percent=round(use), fewer_since=status.fewer_since)
    if target > size:
        return Scaling(target, replace(seen_use, fewer_since=""), _reason(use, spec))
    if target == size or not replicas:
        return Scaling(size, replace(seen_use, fewer_since=""))
    if not status.fewer_since:
        return Scaling(size, replace(seen_use, fewer_since=time_text(now.timestamp())))
    if now - datetime.fromisoformat(status.fewer_since) < timedelta(seconds=spec.scale_down_stabilization_seconds):
        return Scaling(size, seen_use)
    return Scaling(size - 1, replace(seen_use, fewer_since=""), _reason(use, spec))


def _is_settled(state: ClusterState, replicas: Sequence[MemberState], size: int) -> bool:
    """Return whether all members replicate, so that their connections are those of the present size."""
    return (
        bool(state.primary)
        and state.transition is None
        and not state.changing
        and len(state.quorum.members) == size == len(replicas) + 1
        and all(each.follows(state.primary, state.epoch) for each in replicas)
    )


def _reason(use: float, spec: Autoscaling) -> str:
    return f"{use:.0f} % of max_connections are used, and the target is {spec.target_connections_percent} %"


async def autoscale(cluster: C, seen: Observation, ctx: Context, *, updating: bool) -> C:
    """Change the size of a cluster with autoscaling, and return it with its stored status."""
    if not isinstance(cluster, MySQLCluster) or not cluster.spec.autoscaling.enabled or cluster.spec.paused:
        return cluster
    before = cluster.status.autoscaling or AutoscalingStatus()
    spec, size = cluster.spec.autoscaling, cluster.spec.size
    step = next_size(spec, size, before, state_of(cluster.status), seen, ctx.now(), updating=updating)
    changed = step.status.fewer_since != before.fewer_since or step.size != size
    if changed or abs(step.status.connections_percent - before.connections_percent) >= 100 * TOLERANCE:
        cluster = await store_status(ctx, cluster, replace(cluster.status, autoscaling=step.status))
    if step.size != size:
        metadata = {"resourceVersion": cluster.metadata.resource_version}
        await ctx.patch(cluster, MergePatch({"metadata": metadata, "spec": {"size": step.size}}))
        ctx.log.info("size_changed", before=size, after=step.size, reason=step.reason)
        ctx.event("Autoscaled", f"from {size} to {step.size} members: {step.reason}", action="Scale")
    return cluster
