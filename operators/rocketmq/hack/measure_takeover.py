"""Measures the time in which producers get no acknowledgement after the loss of a master, on real servers.

    python hack/measure_takeover.py DLEDGER --runs 20   writes its part of docs/reports/takeover.json, and the README
    python hack/measure_takeover.py --render            writes only the figures of the README, from the report

Producers send messages to a group in a mode that elects masters. Each run stops the master with SIGSTOP, so that its
connections stay open and Kubernetes does not restart it. The time runs from the last acknowledgement before the stop to
the first one after it. Then the old master continues, and the next run begins when all members are in sync.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

REPORT = HERE / "docs/reports/takeover.json"
README = HERE / "README.md"
BEGIN, END = "<!-- takeover: begin, written by hack/measure_takeover.py -->", "<!-- takeover: end -->"
LANE = [("mq-0", 0)]
ATTEMPT_SECONDS = 1.0
"""Timeout of each attempt of a producer to send a message."""


def render(report: dict[str, Any]) -> str:
    """Return the figures as text for the README."""
    lines = [
        "| mode | median | 95th percentile | longest | runs | timeout of an attempt |",
        "|---|---|---|---|---|---|",
    ]
    for mode, found in report["modes"].items():
        seconds = (f"{found[name]:.1f} s" for name in ("median", "p95", "longest"))
        runs, attempt = len(found["seconds"]), found["attempt"]
        lines.append(f"| {mode} | {' | '.join(seconds)} | {runs} | {attempt:g} s |")
    note = f"; {report['note']}" if report.get("note") else ""
    lines += ["", f"{report['date']}, {report['cores']} cores, RocketMQ {report['server']}, embedded cluster{note}."]
    return "\n".join(lines)


def with_figures(readme: str, report: dict[str, Any]) -> str:
    """Return a README with the figures of a report between the markers."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render(report)}\n{END}{after}"


def summary(seconds: list[float], attempt_seconds: float) -> dict[str, Any]:
    """Return the figures of the runs of one mode; the percentile is the nearest rank."""
    ordered = sorted(round(each, 2) for each in seconds)
    return {
        "median": round(statistics.median(ordered), 2),
        "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 2),
        "longest": round(ordered[-1], 2),
        "attempt": attempt_seconds,
        "seconds": [round(each, 2) for each in seconds],
    }


def measure(mode: str, runs: int, note: str) -> dict[str, Any]:
    """Measure a mode, and return the report with its figures and those of the other modes."""
    from steersman.logs import configure

    from tests.process_cluster import process_cluster
    from tests.remoting_servers import VERSION

    configure(level="error")
    with tempfile.TemporaryDirectory() as directory, process_cluster(Path(directory), nodes=3) as cluster:
        found = summary(_takeovers(cluster, mode, runs), ATTEMPT_SECONDS)
    before: dict[str, Any] = json.loads(REPORT.read_text())["modes"] if REPORT.exists() else {}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "server": VERSION,
        "note": note,
        "modes": dict(sorted((before | {mode: found}).items())),
    }


def _takeovers(cluster: Any, mode: str, runs: int) -> list[float]:
    from steersman.testing.node_faults import NodeFaults

    from tests.process_cluster import MODES, group_of, operated, running, sends, started, status, until
    from tests.workload import Workload

    found: list[float] = []
    with operated(cluster, f"takeover-{mode.lower()}") as operator:
        routes = started(cluster, operator.ports, **MODES[mode])
        with Workload(routes, LANE, attempt_seconds=ATTEMPT_SECONDS) as workload:
            for number in range(runs):
                sends(workload)
                master = group_of(cluster)["master"]
                workload.forget_gaps()
                with NodeFaults(cluster).pause(master):
                    until(lambda master=master: group_of(cluster)["master"] != master, "no other master is elected")
                    sends(workload, 10)
                found.append(workload.longest_gap)
                print(f"{mode}, run {number + 1}: {found[-1]:.1f} s", flush=True)
                until(lambda: running(cluster), lambda: f"the old master does not follow: {status(cluster)}")
        if not workload.report().sound:
            sys.exit("acknowledged messages were lost or out of order")
    return found


def main() -> None:
    """Measure a mode or render the report, according to the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", default="DLEDGER", choices=("DLEDGER", "CONTROLLER"))
    parser.add_argument("--runs", type=int, default=20, help="losses of a master")
    parser.add_argument("--note", default="", help="what else the figures depend on, such as other load")
    parser.add_argument("--render", action="store_true", help="only write the figures of the README again")
    arguments = parser.parse_args()
    if not arguments.render:
        report = measure(arguments.mode, arguments.runs, arguments.note)
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=2) + "\n")
    README.write_text(with_figures(README.read_text(), json.loads(REPORT.read_text())))


if __name__ == "__main__":
    main()
