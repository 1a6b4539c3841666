"""Measures the duration of a restore with a point in time, on the embedded cluster with real servers.

    python hack/measure_restore.py --runs 20          writes docs/reports/restore.json and the figures of the README
    python hack/measure_restore.py --render           writes only the figures, from the report

One cluster has a small database, a full backup, and writes after it. Each run restores another cluster to a second after
the backup, and counts its rows. The time runs from the creation of the MySQLCluster to its phase `Running`.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import figures

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE), str(HERE / "hack")]

REPORT = HERE / "docs/reports/restore.json"
BEGIN, END = "<!-- restore: begin, written by hack/measure_restore.py -->", "<!-- restore: end -->"
ROWS, LATER_ROWS = 2000, 500
POLL_SECONDS = 0.05


def render(report: dict[str, Any]) -> str:
    """Return the figures as text for the README."""
    return (
        f"Restore of {report['rows']} rows with a point in time, from the creation of the MySQLCluster to `Running`:"
        f" median {report['median']:.1f} s,\n95th percentile {report['p95']:.1f} s, {len(report['seconds'])} runs"
        f" ({report['date']}, {report['cores']} cores, MariaDB {report['server']}, embedded cluster{_note(report)})."
    )


def _note(report: dict[str, Any]) -> str:
    return f";\n{report['note']}" if report.get("note") else ""


def with_figures(readme: str, report: dict[str, Any]) -> str:
    """Return a README with the figures of a report between the markers."""
    return figures.between(readme, BEGIN, END, render(report))


def summary(seconds: list[float], server: str, note: str = "") -> dict[str, Any]:
    """Return the report of some runs."""
    ordered = sorted(seconds)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "server": server,
        "note": note,
        "rows": ROWS + LATER_ROWS,
        "median": round(statistics.median(ordered), 2),
        "p95": round(figures.nearest_rank(ordered, 0.95), 2),
        "seconds": [round(each, 2) for each in seconds],
    }


def measure(runs: int, note: str) -> dict[str, Any]:
    """Run the restores, and return the report."""
    from servers import make
    from steersman.logs import configure
    from steersman.testing import EmbeddedCluster

    from tests.backup import nodes
    from tests.test_process_nodes import application, until

    configure(level="error")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(HERE),
        "MYSQLCLUSTER_ROOT": str(make("mariadb-10.11")),
    }
    with contextlib.ExitStack() as stack:
        images = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "images.yaml"
        images.write_text(json.dumps({"images": {"steersman/mariadb": {"env": environment}}}))
        started = EmbeddedCluster.start(nodes=3, node_kind="process", images=images, network="namespaces")
        cluster = stack.enter_context(nodes.place_of(stack.enter_context(started))).cluster
        stack.enter_context(nodes.operator_on(cluster))
        policy = {"schedule": "0 3 * * *", "target": {"pvc": {"size": "1Gi"}}}
        cluster.apply(nodes.cluster_of("db", backup=policy))
        until(lambda: nodes.is_running(cluster, "db"), "the cluster did not become healthy")
        with application(cluster, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.executemany("INSERT INTO items VALUES (%s)", [(number,) for number in range(ROWS)])
            cluster.apply(nodes.backup_of("first"))
            until(
                lambda: nodes.status(cluster, nodes.BACKUPS, "first").get("phase") == "Completed",
                "the backup was not completed",
            )
            nodes.next_second(cursor)
            for number in range(ROWS, ROWS + LATER_ROWS):
                cursor.execute("INSERT INTO items VALUES (%s)", (number,))
            point = nodes.next_second(cursor)
            cursor.execute("DELETE FROM items")
            end = nodes.next_second(cursor)
            cursor.execute("SELECT VERSION()")
            server = str(cursor.fetchone()[0])
        until(lambda: nodes.reaches(cluster, end), "the archive did not go on")
        copy = nodes.cluster_of("copy", fromBackup="first", restore={"pointInTime": point.isoformat()})
        seconds: list[float] = []
        for number in range(1, runs + 1):
            began = time.monotonic()
            cluster.apply(copy)
            until(lambda: nodes.is_running(cluster, "copy"), "the copy did not become healthy")
            seconds.append(time.monotonic() - began)
            with application(cluster, "copy-0", "copy") as cursor:
                cursor.execute("SELECT COUNT(*) FROM items")
                if (found := cursor.fetchone()[0]) != ROWS + LATER_ROWS:
                    sys.exit(f"run {number}: {found} rows, not {ROWS + LATER_ROWS}")
            print(f"run {number}: {seconds[-1]:.2f} s", flush=True)
            _remove_copy(cluster, nodes.KIND, until)
        return summary(seconds, server, note)


def _remove_copy(cluster: Any, kind: str, until: Any) -> None:
    cluster.delete(kind, "copy")
    until(lambda: cluster.get(kind, "copy") is None, "the copy was not removed")
    for name in ("copy-0", "copy-archiver-0"):
        until(lambda name=name: cluster.get("pods", name) is None, f"the Pod {name} was not removed")
    for claim in cluster.list("persistentvolumeclaims"):
        if claim["metadata"]["name"].endswith("-copy-0"):
            cluster.delete("persistentvolumeclaims", claim["metadata"]["name"])
            until(
                lambda claim=claim: cluster.get("persistentvolumeclaims", claim["metadata"]["name"]) is None,
                "the volume of the copy was not removed",
            )


def main() -> None:
    """Measure, or render the figures of the last report."""
    parser = figures.options(__doc__)
    arguments = parser.parse_args()
    measured = None if arguments.render else measure(arguments.runs, arguments.note)
    figures.publish(REPORT, measured, render, with_figures)


if __name__ == "__main__":
    main()
