"""Measures the time without acknowledged writes after the loss of a primary and during a switchover.

    python hack/measure_failover.py mariadb --runs 20     writes its part of docs/reports/failover.json, and the README
    python hack/measure_failover.py mysql --runs 20       the same for MySQL
    python hack/measure_failover.py --render              writes only the figures, from the report

The operator and three members run on an embedded cluster with real servers. Four clients write to the Pod that has the
role label of the primary. A loss kills the server and deletes the Pod, which is kept away until another member is the
primary. A switchover is a MySQLSwitchover. Both begin when all members have received all acknowledged writes; both
times are the longest gap between two acknowledged writes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import figures

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

REPORT = HERE / "docs/reports/failover.json"
BEGIN, END = "<!-- failover: begin, written by hack/measure_failover.py -->", "<!-- failover: end -->"
SERVERS = {"mariadb": ("mariadb-10.11", "10.11"), "mysql": ("mysql-9.7", "9.7")}


def summary(seconds: list[float]) -> dict[str, Any]:
    """Return the figures of some runs; the percentile is the nearest rank."""
    ordered = sorted(round(each, 2) for each in seconds)
    return {
        "median": round(statistics.median(ordered), 2),
        "p95": figures.nearest_rank(ordered, 0.95),
        "longest": ordered[-1],
        "seconds": [round(each, 2) for each in seconds],
    }


def render(report: dict[str, Any]) -> str:
    """Return the figures as text for the README."""
    lines = [
        "| time without acknowledged writes | server | median | 95th percentile | longest | runs |",
        "|---|---|---|---|---|---|",
    ]
    for flavor, parts in sorted(report["flavors"].items()):
        for kind, found in sorted(parts.items()):
            times = " | ".join(f"{found[name]:.1f} s" for name in ("median", "p95", "longest"))
            lines.append(f"| {kind} | {flavor} | {times} | {len(found['seconds'])} |")
    note = f"; {report['note']}" if report.get("note") else ""
    lines += ["", f"{report['date']}, {report['cores']} cores, embedded cluster, detection after 2 s{note}."]
    return "\n".join(lines)


def with_figures(readme: str, report: dict[str, Any]) -> str:
    """Return a README with the figures of a report between the markers."""
    return figures.between(readme, BEGIN, END, render(report))


def measure(flavor: str, runs: int, note: str) -> dict[str, Any]:
    """Run the losses and the switchovers of a flavor, and return the report with those of the other one."""
    from steersman.logs import configure

    from tests import scenario
    from tests.test_process_nodes import manifest, operated, process_cluster, tier_of

    configure(level="error")
    server, version = SERVERS[flavor]
    wanted = manifest(flavor=flavor, version=version)
    with (
        tempfile.TemporaryDirectory() as directory,
        process_cluster(Path(directory), {f"steersman/{flavor}": server}) as processes,
        operated(processes, wanted, "measured") as cluster,
        tier_of(cluster) as tier,
    ):
        database = scenario.started(tier, wanted)
        with scenario.Writers(database) as writers:
            writers.wait_acknowledged()
            losses = _repeated(runs, "failover", lambda: _lost(database, writers))
            moves = _repeated(runs, "switchover", lambda: _moved(database, writers))
        scenario.check_history(database, writers)
    before: dict[str, Any] = json.loads(REPORT.read_text())["flavors"] if REPORT.exists() else {}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "note": note,
        "flavors": before | {flavor: {"failover": summary(losses), "switchover": summary(moves)}},
    }


def _lost(database: Any, writers: Any) -> float:
    from tests import scenario

    scenario.wait_replicated(database, writers)
    return scenario.survives_the_loss_of_the_primary(database, writers)


def _moved(database: Any, writers: Any) -> float:
    from tests import scenario

    scenario.wait_replicated(database, writers)
    began = time.monotonic()
    scenario.moves_its_primary(database, writers)
    return writers.longest_gap(since=began)


def _repeated(runs: int, kind: str, once: Callable[[], float]) -> list[float]:
    found: list[float] = []
    for number in range(runs):
        found.append(once())
        print(f"{kind}, run {number + 1}: {found[-1]:.2f} s", flush=True)
    return found


def main() -> None:
    """Measure, or render the figures of the last report."""
    parser = figures.options(__doc__)
    parser.add_argument("flavor", nargs="?", default="mariadb", choices=tuple(SERVERS))
    arguments = parser.parse_args()
    measured = None if arguments.render else measure(arguments.flavor, arguments.runs, arguments.note)
    figures.publish(REPORT, measured, render, with_figures)


if __name__ == "__main__":
    main()
