"""Metrics of backups."""

from __future__ import annotations

from prometheus_client import Counter, Gauge
from steersman import Key
from steersman.metrics import REGISTRY

from mysqlcluster.backup.lifecycle import ENDED
from mysqlcluster.gauges import GAUGES

__all__ = ["count", "forget", "record", "record_problem"]

_CLUSTER = ["namespace", "cluster"]

AGE = Gauge("steersman_mysql_backup_age_seconds", "Age of the last verified backup.", _CLUSTER, registry=REGISTRY)
LAG = Gauge(
    "steersman_mysql_binlog_archive_lag_seconds",
    "Time since which the archive of the binary log may lack transactions.",
    _CLUSTER,
    registry=REGISTRY,
)
GAPS = Gauge("steersman_mysql_binlog_archive_gaps", "Gaps of the archive.", _CLUSTER, registry=REGISTRY)
READY = Gauge("steersman_mysql_backup_ready", "1 if the condition BackupReady is true.", _CLUSTER, registry=REGISTRY)
BACKUPS = Counter("steersman_mysql_backups_total", "Backups that have ended.", ["result"], registry=REGISTRY)
for _result in ENDED:
    BACKUPS.labels(_result.lower())  # an alert on the increase needs the zero before the first backup


def record(key: Key, age: float | None, lag: float | None, gaps: int, *, ready: bool) -> None:
    """Set the gauges of a cluster.

    Args:
        key: The cluster.
        age: Seconds since the last verified backup; `None` if there is none.
        lag: Seconds by which the archive is behind; `None` without an archive.
        gaps: Gaps of the archive.
        ready: The condition `BackupReady`.
    """
    for gauge, value in ((AGE, age), (LAG, lag), (GAPS, float(gaps)), (READY, float(ready))):
        if value is None:
            GAUGES.forget(key, gauge)
        else:
            GAUGES.set(key, gauge, value)


def record_problem(key: Key) -> None:
    """Set the gauges of a cluster with an unknown state of the archive."""
    GAUGES.set(key, READY, 0.0)


def count(phase: str) -> None:
    """Count a backup that has ended."""
    BACKUPS.labels(phase.lower()).inc()


def forget(key: Key) -> None:
    """Remove the gauges of a cluster without backups."""
    GAUGES.forget(key, AGE, LAG, GAPS, READY)
