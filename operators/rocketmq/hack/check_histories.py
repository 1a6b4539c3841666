"""Runs histories of messages on real servers under the faults of seeds, and writes a report of the results.

    python hack/check_histories.py DLEDGER --seeds 25   seeds 0 to 24, into docs/reports/histories-dledger.json
    python hack/check_histories.py --render             writes only docs/histories.md, from the reports

Each seed chooses faults. Producers send numbered messages during all of them, and afterwards all messages are read. The
report is written after each seed, so that an interrupted run keeps its results. A seed that is already in the report
runs again only with `--again`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

MODES = ("DLEDGER", "CONTROLLER")
PAGE = HERE / "docs/histories.md"
INTRODUCTION = """\
# Histories under faults

<!-- Written by hack/check_histories.py from docs/reports/histories-*.json. -->

Two producers send numbered messages to a group while the faults of a seed hit it one after the other. Each fault ends,
and all members are in sync again, before the next one begins. Afterwards all messages are read: each acknowledged
message must exist, and each queue must be in the order of its producer. A duplicate is a message that a producer
repeated because its first attempt was not acknowledged in time. The gap is the longest time without an acknowledgement.
"""


def report_of(mode: str) -> Path:
    """Return the file of the report of a mode."""
    return HERE / f"docs/reports/histories-{mode.lower()}.json"


def read_report(mode: str) -> dict[str, Any]:
    """Return the report of a mode; an empty one if there is none."""
    path = report_of(mode)
    return json.loads(path.read_text()) if path.exists() else {"mode": mode, "runs": []}


def render(reports: Iterable[dict[str, Any]]) -> str:
    """Return the page with the results of all reports."""
    parts = [INTRODUCTION]
    for report in reports:
        runs = report["runs"]
        if not runs:
            continue
        lost, disordered, messages = (
            sum(each[name] for each in runs) for name in ("lost", "disordered", "acknowledged")
        )
        note = f"; {report['note']}" if report.get("note") else ""
        parts.append(f"## {report['mode']}\n")
        parts.append(
            f"{len(runs)} seeds, {messages} acknowledged messages: {lost} lost, {disordered} out of order."
            f"\n{report['date']}, {report['cores']} cores, embedded cluster{note}.\n"
        )
        parts.append(
            "| seed | acknowledged | lost | out of order | duplicates | gap | faults |\n|---|---|---|---|---|---|---|"
        )
        parts += [_row(each) for each in runs]
        parts.append("")
    return "\n".join(parts)


def _row(run: dict[str, Any]) -> str:
    numbers = (run[name] for name in ("seed", "acknowledged", "lost", "disordered", "duplicates"))
    return f"| {' | '.join(map(str, numbers))} | {run['gap']:.1f} s | {'; '.join(run['faults'])} |"


def run(mode: str, seeds: Iterable[int], note: str) -> bool:
    """Run the seeds that the report lacks, and return whether no history has lost or disordered messages."""
    report = read_report(mode)
    runs: list[dict[str, Any]] = report["runs"]
    done = {each["seed"] for each in runs}
    report |= {"date": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count(), "note": note}
    with contextlib.closing(_results(mode, [seed for seed in seeds if seed not in done])) as results:
        for result in results:
            report["runs"] = runs = sorted([*runs, result], key=lambda each: each["seed"])
            report_of(mode).parent.mkdir(parents=True, exist_ok=True)
            report_of(mode).write_text(json.dumps(report, indent=2) + "\n")
            print(f"{mode}, seed {_row(result)}", flush=True)
    return not any(each["lost"] or each["disordered"] for each in runs)


def _results(mode: str, seeds: list[int]) -> Generator[dict[str, Any]]:
    from steersman.logs import configure

    from tests.faults import faults_of
    from tests.injection import VERSIONS, Shop, run_history
    from tests.process_cluster import MODES as SPECS
    from tests.process_cluster import name_service, operated, process_cluster, started

    configure(level="error")
    with (
        tempfile.TemporaryDirectory() as directory,
        process_cluster(Path(directory), nodes=3, versions=VERSIONS) as cluster,
        operated(cluster, f"histories-{mode.lower()}") as operator,
    ):
        image = {"brokerImage": f"rocketmq:{VERSIONS[0]}"}
        shop = Shop(
            cluster, operator, started(cluster, operator.ports, servers=name_service(2), **image, **SPECS[mode])
        )
        for seed in seeds:
            chosen = faults_of(seed)
            found = run_history(shop, f"orders-{seed}", chosen)
            yield {
                "seed": seed,
                "faults": [str(each) for each in chosen],
                "acknowledged": found.acknowledged,
                "lost": len(found.report.lost),
                "disordered": len(found.report.disordered),
                "duplicates": found.report.duplicates,
                "gap": round(found.longest_gap_seconds, 2),
            }


def main() -> None:
    """Run seeds or render the page, according to the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", default="DLEDGER", choices=MODES)
    parser.add_argument("--seeds", type=int, default=25, help="the number of seeds, from 0")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--again", action="store_true", help="run also the seeds that the report has")
    parser.add_argument("--note", default="", help="what else the figures depend on, such as other load")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    sound = True
    if not arguments.render:
        if arguments.again:
            report_of(arguments.mode).unlink(missing_ok=True)
        sound = run(arguments.mode, range(arguments.first, arguments.first + arguments.seeds), arguments.note)
    PAGE.write_text(render(map(read_report, MODES)))
    if not sound:
        sys.exit("acknowledged messages were lost or out of order")


if __name__ == "__main__":
    main()
