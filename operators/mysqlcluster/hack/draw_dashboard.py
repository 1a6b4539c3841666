"""Draws the panels of the dashboard into docs/dashboard.svg, with the values of a run on real servers.

    python hack/draw_dashboard.py

The cluster of the demo takes writes and a backup, and loses its primary. Prometheus scrapes the operator and the servers
and evaluates the queries of `config/alerts/dashboard.json`. Grafana is not needed, so colours and fonts differ from
Grafana's. It needs Linux, root, apt and Prometheus.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "hack")]

from panels import Panel, drawn, panel_of, prometheus  # noqa: E402
from prometheus_client import start_http_server  # noqa: E402
from steersman.logs import configure  # noqa: E402
from steersman.metrics import REGISTRY  # noqa: E402
from steersman.testing import EmbeddedCluster  # noqa: E402
from steersman.testing.node_faults import NodeFaults, forwarded  # noqa: E402

import demo  # noqa: E402
from mysqlcluster.names import METRICS_PORT  # noqa: E402

DASHBOARD = HERE / "config/alerts/dashboard.json"
PICTURE = HERE / "docs/dashboard.svg"
STEADY_SECONDS = 40
"""Time without a fault, before and after the loss of the primary."""
STORAGE = {"size": "1Gi", "autoGrow": {"enabled": False, "thresholdPercent": 99}}
"""The volumes are directories of this machine, and have the use of its disk."""


def observed() -> tuple[Sequence[Panel], float]:
    """Run the servers and a loss of the primary, and return the panels with their values, and the length in seconds."""
    with demo.running() as (cluster, ports), contextlib.ExitStack() as stack:
        cluster.apply({**demo.CLUSTER, "spec": {**demo.CLUSTER["spec"], "storage": STORAGE}})
        demo.wait_healthy(cluster, time.monotonic())
        metrics, _ = start_http_server(0, addr="127.0.0.1", registry=REGISTRY)
        stack.callback(metrics.shutdown)
        targets: list[tuple[str, Mapping[str, str]]] = [(f"127.0.0.1:{metrics.server_port}", {})]
        for pod in demo.MEMBERS:
            _, port = stack.enter_context(forwarded(cluster, pod, METRICS_PORT))
            labels = {"namespace": cluster.namespace, "pod": pod, "mysqlcluster_cr": "shop"}
            targets.append((f"127.0.0.1:{port}", labels))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(prometheus(directory, targets, honor_labels=True))
        began = time.time()
        _lose_the_primary(cluster, ports)
        ended = time.time()
        panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
        variables = {"namespace": cluster.namespace, "cluster": "shop"}
        return [panel_of(server, panel, variables, began, ended) for panel in panels], ended - began


def _lose_the_primary(cluster: EmbeddedCluster, ports: dict[str, int]) -> None:
    """Write, take a backup, and lose the primary."""
    workload = demo.Workload(cluster, ports, demo.password_of(cluster, "shop"))
    primary = demo.primary_of(cluster)
    with contextlib.closing(workload.connect(primary)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
    workload.start()
    time.sleep(STEADY_SECONDS / 2)
    cluster.apply(demo.BACKUP)
    time.sleep(STEADY_SECONDS / 2)
    NodeFaults(cluster).kill(primary, container="mysql")
    cluster.delete("pods", primary)
    demo.wait_healthy(cluster, time.monotonic(), workload, other_than=primary)
    time.sleep(STEADY_SECONDS)
    workload.ended.set()
    workload.join(10)


def main() -> None:
    """Observe a run and draw it."""
    configure(level="error")
    panels, seconds = observed()
    PICTURE.write_text(drawn(panels, seconds))


if __name__ == "__main__":
    main()
