"""Rows on a real kube-apiserver with etcd: `python -m benchmarks.real [ROW...] --runs N --json F`.

The same peers, objects and measures as on the stub server, with the real one's pace, frames and bookkeeping. Server
and writers are pinned to the first core, the peer to the last. It needs what `make controlplane` builds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import aside
from benchmarks.facts import ours
from benchmarks.harness import Bench, Stub, build
from benchmarks.real_server import RealServer
from benchmarks.rows import OURS, PROTOBUF, THEIRS, Bar, Row, Size, cold_sync, events, patches

PEERS = (OURS, THEIRS)

_RUNS = 2
_RUNS_OF_LATENCY = 5
"""The p99 of a round is that of five events."""
_WIDGETS, _PODS = 4_000, 2_000

ROWS: Sequence[Row] = (
    Row(
        "real-events", "kube-apiserver: watch event, sixteen writers", events,
        Size("widgets", _WIDGETS, 1_000), Size("widgets", 400, 200), PEERS, (Bar("cpu_us", 0.3),), runs=_RUNS,
    ),
    Row(
        "real-patch", "kube-apiserver: update handled with one status PATCH, sixteen writers", patches,
        Size("widgets", _WIDGETS, 600), Size("widgets", 400, 200), PEERS, (Bar("cpu_us", 0.3),), runs=_RUNS,
    ),
    Row(
        "real-patch-50", "kube-apiserver: update handled with one status PATCH, 50 a second", patches,
        Size("widgets", _WIDGETS, 500, 50), Size("widgets", 400, 100, 50), PEERS, (Bar("p99_ms", 1.0),),
        runs=_RUNS_OF_LATENCY,
    ),
    Row(
        "real-events-pods", "kube-apiserver: watch event of a Pod, sixteen writers", events,
        Size("pods", _PODS, 1_000), Size("pods", 200, 200), (*PEERS, PROTOBUF),
        (Bar("cpu_us", 0.3), Bar("cpu_us", 0.7, PROTOBUF)), runs=_RUNS,
    ),
    Row(
        "real-sync-widgets", f"kube-apiserver: initial sync, {_WIDGETS:,} custom resources of 1.2 KB", cold_sync,
        Size("widgets", _WIDGETS), Size("widgets", 400), PEERS, (Bar("cpu_us", 0.2), Bar("bytes", 0.3)), runs=_RUNS,
    ),
    Row(
        "real-sync-pods", f"kube-apiserver: initial sync, {_PODS:,} Pods of 5 KB with managedFields", cold_sync,
        Size("pods", _PODS), Size("pods", 200), (*PEERS, PROTOBUF),
        (Bar("cpu_us", 0.2), Bar("bytes", 0.3), Bar("cpu_us", 0.8, PROTOBUF)), runs=_RUNS,
    ),
)  # fmt: skip
"""The load is what sixteen writers and one core for the server make of it: peers wait for events, not events for peers.

Latency is from the writer's request to the reconcile, so that the server's own part is in it. It says something of the
peer only where the server has capacity left, at 50 a second: else a peer that answers sooner makes writers wait longer.
"""


def opened() -> Bench:
    """The bench of this study."""
    return Bench(RealServer(Stub(build("server", "stub-server"))))


STUDY = aside.Study("real", (__doc__ or "").splitlines()[0], ROWS, opened, ours)

if __name__ == "__main__":
    sys.exit(aside.main(STUDY))
