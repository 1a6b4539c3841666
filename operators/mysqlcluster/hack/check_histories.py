"""Runs histories of writes on real servers under the faults of seeds, and writes a report of the results.

    python hack/check_histories.py --seeds 100            seeds 0 to 99 on MariaDB, in docs/reports/histories-mariadb.json
    python hack/check_histories.py mysql --seeds 100      the same on MySQL
    python hack/check_histories.py --render               writes only docs/histories.md, from the reports

The report is written after each seed, so that an interrupted run continues with the next seed. A seed that is in the
report runs again only with `--again`. The exit code is 1 if a history has a problem or the cluster did not heal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

SERVERS = {"mariadb": "mariadb-10.11", "mysql": "mysql-9.7"}
PAGE = HERE / "docs/histories.md"
INTRODUCTION = """\
# Histories under faults

<!-- Written by hack/check_histories.py from docs/reports/histories-*.json. -->

Four writers insert unique numbers on three real servers while the faults of a seed happen. After healing, every member
is read: no acknowledged write may be missing, no write may be present that failed, and all members must be equal. The
gap is the longest time between two acknowledged writes; it includes the time in which too few members were present.
"""


def report_of(flavor: str) -> Path:
    """Return the file of the report of a flavor."""
    return HERE / f"docs/reports/histories-{flavor}.json"


def read_report(flavor: str) -> dict[str, Any]:
    """Return the report of a flavor; an empty one if there is none."""
    path = report_of(flavor)
    return json.loads(path.read_text()) if path.exists() else {"server": SERVERS[flavor], "runs": []}


def render(reports: Iterable[dict[str, Any]]) -> str:
    """Return the page with the results of all reports."""
    parts = [INTRODUCTION]
    for report in reports:
        runs = report["runs"]
        if not runs:
            continue
        wrong = sum(bool(each["problems"]) for each in runs)
        total = sum(each["acknowledged"] for each in runs)
        note = f"; {report['note']}" if report.get("note") else ""
        parts += [
            f"## {report['server']}\n",
            f"{len(runs)} seeds, {total} acknowledged writes, {wrong} seeds with a problem"
            f" ({report['date']}, {report['cores']} cores{note}).\n",
            "| seed | acknowledged | unknown | gap | faults | problems |\n|---|---|---|---|---|---|",
            *map(_row, runs),
            "",
        ]
    return "\n".join(parts)


def _row(run: dict[str, Any]) -> str:
    faults, found = "; ".join(run["faults"]), "; ".join(run["problems"]) or "none"
    gap = f"{run['longest_gap']:.1f} s"
    return f"| {run['seed']} | {run['acknowledged']} | {run['unknown']} | {gap} | {faults} | {found} |"


def run(flavor: str, seeds: Iterable[int], note: str) -> bool:
    """Run the seeds that the report lacks, and return whether no history has a problem."""
    report = read_report(flavor)
    done = {each["seed"] for each in report["runs"]}
    report |= {"date": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count(), "note": note}
    for seed in seeds:
        if seed in done:
            continue
        found = asyncio.run(_history(SERVERS[flavor], seed))
        report["runs"] = sorted([*report["runs"], found], key=lambda each: each["seed"])
        report_of(flavor).parent.mkdir(parents=True, exist_ok=True)
        report_of(flavor).write_text(json.dumps(report, indent=1) + "\n")
        print(f"{flavor}, seed {_row(found)}", flush=True)
    return not any(each["problems"] for each in report["runs"])


async def _history(server: str, seed: int) -> dict[str, Any]:
    from tests.history import run_seed
    from tests.members import members_of

    with tempfile.TemporaryDirectory() as directory, members_of(Path(directory), 3, server=server) as members:
        try:
            found = asdict(await run_seed(members, seed))
        except AssertionError as problem:  # the cluster did not heal
            found = failure_of(seed, str(problem))
    return found | {"longest_gap": round(found["longest_gap"], 2)}


def failure_of(seed: int, problem: str) -> dict[str, Any]:
    """Return the result of a seed after which the cluster did not heal."""
    empty: dict[str, Any] = {"faults": [], "acknowledged": 0, "unknown": 0, "longest_gap": 0.0}
    return {"seed": seed, **empty, "problems": [problem.splitlines()[0][:300]]}


def main() -> None:
    """Run seeds or render the page, according to the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flavor", nargs="?", default="mariadb", choices=tuple(SERVERS))
    parser.add_argument("--seeds", type=int, default=100, help="the number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--again", action="store_true", help="run also the seeds that the report has")
    parser.add_argument("--note", default="", help="a remark about the machine, for the report")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    sound = True
    if not arguments.render:
        if arguments.again:
            report_of(arguments.flavor).unlink(missing_ok=True)
        sound = run(arguments.flavor, range(arguments.first, arguments.first + arguments.seeds), arguments.note)
    PAGE.write_text(render(map(read_report, SERVERS)))
    if not sound:
        sys.exit("a history has a problem: see docs/histories.md")


if __name__ == "__main__":
    main()
