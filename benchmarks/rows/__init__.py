"""The rows of the benchmark: the measurement, the peers and the bar of each.

A row's measurement drives one fresh peer process and returns plain numbers; it raises BenchmarkError when the
peer missed an event or a write, so that no peer wins by dropping work, and NotMeasuredError without such a peer.
"""

from benchmarks.rows.cold import cold_sync, first_pass, namespaces
from benchmarks.rows.life import cold_start, idle, imports, shutdown
from benchmarks.rows.load import applies, backlog, controllers, events, latencies, patches, reconciles
from benchmarks.rows.model import (
    CEILING,
    CLIENT_GO,
    INTERPRETED_PLAIN,
    JAVA,
    KOPF,
    KOPF_UVLOOP,
    KUBE_RS,
    OFFICIAL,
    OURS,
    PLAIN,
    PROTOBUF,
    THEIRS,
    Bar,
    Numbers,
    Row,
    Size,
)
from benchmarks.rows.sync import relist, sync
from benchmarks.rows.table import ROWS

__all__ = [
    "CEILING",
    "CLIENT_GO",
    "INTERPRETED_PLAIN",
    "JAVA",
    "KOPF",
    "KOPF_UVLOOP",
    "KUBE_RS",
    "OFFICIAL",
    "OURS",
    "PLAIN",
    "PROTOBUF",
    "ROWS",
    "THEIRS",
    "Bar",
    "Numbers",
    "Row",
    "Size",
    "applies",
    "backlog",
    "cold_start",
    "cold_sync",
    "controllers",
    "events",
    "first_pass",
    "idle",
    "imports",
    "latencies",
    "namespaces",
    "patches",
    "reconciles",
    "relist",
    "shutdown",
    "sync",
]
