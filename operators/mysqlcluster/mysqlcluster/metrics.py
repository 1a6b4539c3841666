"""Metrics of clusters, by namespace and name."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from steersman import Key
from steersman.metrics import REGISTRY

from mysqlcluster.gauges import GAUGES
from mysqlcluster.machine import ClusterState, Kind
from mysqlcluster.observation import Observation, Role

__all__ = ["count", "record"]

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


CANARY = Gauge(
    "steersman_mysql_canary_result", "0 if the canary of the last upgrade failed, else 1.", _CLUSTER, registry=REGISTRY
)
STORAGE_OK = Gauge("steersman_mysql_storage_ok", "1 if the condition StorageOK is true.", _CLUSTER, registry=REGISTRY)
BLOCKED = Gauge(
    "steersman_mysql_failover_blocked", "1 while a change of the primary cannot go on.", _CLUSTER, registry=REGISTRY
)


def record(
    key: Key,
    state: ClusterState,
    seen: Observation,
    *,
    blocked: bool = False,
    canary_failed: bool = False,
    storage_ok: bool = True,
) -> None:
    """Set the gauges of a cluster, and remove the gauges of removed members."""
    GAUGES.forget(key, UP, VOLUME, LAG)
    GAUGES.set(key, BLOCKED, blocked)
    GAUGES.set(key, CANARY, not canary_failed)
    GAUGES.set(key, STORAGE_OK, storage_ok)
    GAUGES.set(key, EPOCH, state.epoch)
    GAUGES.set(key, ERRANT, sum(each.confirmed for each in state.errant))
    for member in seen.members:
        GAUGES.set(key, UP, member.reachable and member.server_up, member.name)
        if member.reachable:
            GAUGES.set(key, VOLUME, member.disk_used_ratio, member.name)
        if member.role is Role.REPLICA and member.lag_seconds is not None:
            GAUGES.set(key, LAG, member.lag_seconds, member.name)


def count(before: ClusterState, after: ClusterState, now: float) -> None:
    """Count a transition that has reached its new primary."""
    transition = before.transition
    if transition is None or before.primary == after.primary:
        return
    if transition.kind is Kind.FAILOVER:
        FAILOVERS.inc()
        FAILOVER_SECONDS.observe(max(0.0, now - transition.started_at))
    elif transition.kind is Kind.SWITCHOVER:
        SWITCHOVERS.inc()
