"""Metrics of backups."""

from __future__ import annotations

from prometheus_client import Counter, Gauge
from steersman import Key
from steersman.metrics import REGISTRY

__all__ = ["count", "forget", "record"]

_CLUSTER = ["namespace", "cluster"]

AGE = Gauge("steersman_mysql_backup_age_seconds", "Age of the last verified backup.", _CLUSTER, registry=REGISTRY)
LAG = Gauge(
    "steersman_mysql_binlog_archive_lag_seconds",
    "Time since which the archive of the binary log may lack transactions.",
    _CLUSTER,
    registry=REGISTRY,
)
GAPS = Gauge("steersman_mysql_binlog_archive_gaps", "Gaps of the archive.", _CLUSTER, registry=REGISTRY)
BACKUPS = Counter("steersman_mysql_backups_total", "Backups that have ended.", ["result"], registry=REGISTRY)


def record(key: Key, age: float | None, lag: float | None, gaps: int) -> None:
    """Set the gauges of a cluster; `None` is not known."""
    place = (key.namespace, key.name)
    if age is not None:
        AGE.labels(*place).set(age)
    if lag is not None:
        LAG.labels(*place).set(lag)
    GAPS.labels(*place).set(gaps)


def count(phase: str) -> None:
    """Count a backup that has ended."""
    BACKUPS.labels(phase.lower()).inc()


def forget(key: Key) -> None:
    """Remove the gauges of a cluster that is gone."""
    for metric in (AGE, LAG, GAPS):
        metric.remove(key.namespace, key.name)
