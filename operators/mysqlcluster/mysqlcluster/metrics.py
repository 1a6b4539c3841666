"""Metrics of clusters, by namespace and name."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from steersman import Key
from steersman.metrics import REGISTRY

from mysqlcluster.machine import ClusterState, Kind
from mysqlcluster.observation import Observation, Role

__all__ = ["count", "forget", "record"]

_CLUSTER = ["namespace", "cluster"]
_MEMBER = [*_CLUSTER, "member"]

UP = Gauge("steersman_mysql_up", "1 if the member's server answers.", _MEMBER, registry=REGISTRY)
EPOCH = Gauge("steersman_mysql_primary_epoch", "The stored epoch.", _CLUSTER, registry=REGISTRY)
FAILOVERS = Counter("steersman_mysql_failovers_total", "Failovers that were completed.", registry=REGISTRY)
SWITCHOVERS = Counter("steersman_mysql_switchovers_total", "Switchovers that were completed.", registry=REGISTRY)
FAILOVER_SECONDS = Histogram(
    "steersman_mysql_failover_duration_seconds",
    "Time from the stored start of a failover to the new primary.",
    registry=REGISTRY,
)
LAG = Gauge("steersman_mysql_replica_lag_seconds", "Replication lag of a member.", _MEMBER, registry=REGISTRY)
ERRANT = Gauge(
    "steersman_mysql_errant_members", "Members with confirmed errant transactions.", _CLUSTER, registry=REGISTRY
)
VOLUME = Gauge("steersman_mysql_volume_used_ratio", "Used share of a member's volume.", _MEMBER, registry=REGISTRY)


def record(key: Key, state: ClusterState, seen: Observation) -> None:
    """Set the gauges of a cluster."""
    EPOCH.labels(key.namespace, key.name).set(state.epoch)
    ERRANT.labels(key.namespace, key.name).set(sum(each.confirmed for each in state.errant))
    for member in seen.members:
        place = (key.namespace, key.name, member.name)
        UP.labels(*place).set(member.reachable and member.server_up)
        VOLUME.labels(*place).set(member.disk_used_ratio)
        if member.role is Role.REPLICA and member.lag_seconds is not None:
            LAG.labels(*place).set(member.lag_seconds)


def count(before: ClusterState, after: ClusterState, now: float) -> None:
    """Count a transition that has got its primary."""
    transition = before.transition
    if transition is None or before.primary == after.primary:
        return
    if transition.kind is Kind.FAILOVER:
        FAILOVERS.inc()
        FAILOVER_SECONDS.observe(max(0.0, now - transition.started_at))
    elif transition.kind is Kind.SWITCHOVER:
        SWITCHOVERS.inc()


def forget(key: Key, members: tuple[str, ...]) -> None:
    """Remove the gauges of a cluster that is gone."""
    for metric in (EPOCH, ERRANT):
        metric.remove(key.namespace, key.name)
    for metric in (UP, LAG, VOLUME):
        for member in members:
            metric.remove(key.namespace, key.name, member)
