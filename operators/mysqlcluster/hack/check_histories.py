"""Runs histories of writes on real servers under the faults of seeds, and writes a report of the results.

    python hack/check_histories.py --seeds 100            seeds 0 to 99 on MariaDB, in docs/reports/histories-mariadb.json
    python hack/check_histories.py mysql --seeds 100      the same on MySQL
    python hack/check_histories.py --jobs 4               four seeds at the same time, on servers of their own
    python hack/check_histories.py --render               writes only docs/histories.md, from the reports

The report is written after each seed, so that an interrupted run keeps its results, and the same command continues it. A
seed that is in the report runs again only with `--again`, which first removes the results of its seeds. A seed whose
cluster did not heal has no result: it runs again, and the report counts its attempts. The exit code is 1 if a history
has a problem or a cluster did not heal.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

SERVERS = {"mariadb": "mariadb-10.11", "mysql": "mysql-9.7"}
PAGE = HERE / "docs/histories.md"
MAX_REASON_CHARACTERS = 300
INTRODUCTION = """\
# Histories under faults

<!-- Written by hack/check_histories.py from docs/reports/histories-*.json. -->

Four writers insert unique numbers on three real servers before, during and after the faults of a seed. After healing,
every member is read: no acknowledged write may be missing, no write may be present that failed, and all members must be
equal. The gap is the longest time between two acknowledged writes; it includes the time in which too few members were
present.

`python hack/check_histories.py FLAVOR --seeds 100` runs the seeds of a flavor that its report lacks.
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
        healed = [each for each in runs if not each["unhealed"]]
        wrong = sum(bool(each["problems"]) for each in healed)
        acknowledged = sum(each["acknowledged"] for each in healed)
        summary = f"{_seeds(len(healed))}, {acknowledged} acknowledged writes, {wrong} with a problem."
        if repeated := sum(each["repeated"] for each in runs):
            summary += f" {repeated} earlier attempts did not heal, and ran again."
        parts += [
            f"## {report['server']}\n",
            summary,
            f"{_circumstances(runs)}.\n",
            "| seed | acknowledged | unknown | gap | faults | problems |\n|---|---|---|---|---|---|",
            *map(_row, healed),
            "",
            *(_unhealed(each) for each in runs if each["unhealed"]),
        ]
    return "\n".join(parts)


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _circumstances(runs: Sequence[dict[str, Any]]) -> str:
    """Return the dates, the machine and the notes of runs."""
    dates = sorted({each["date"] for each in runs})
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    cores = " and ".join(str(each) for each in sorted({each["cores"] for each in runs}))
    notes = "".join(f"; {each}" for each in sorted({each["note"] for each in runs if each["note"]}))
    return f"{period}, {cores} cores{notes}"


def _row(run: dict[str, Any]) -> str:
    faults, found = "; ".join(run["faults"]), "; ".join(run["problems"]) or "none"
    gap = f"{run['longest_gap']:.1f} s"
    return f"| {run['seed']} | {run['acknowledged']} | {run['unknown']} | {gap} | {faults} | {found} |"


def _unhealed(run: dict[str, Any]) -> str:
    faults = "; ".join(run["faults"]) or "before the first fault"
    return textwrap.fill(f"Seed {run['seed']} did not heal ({faults}).", 120) + "\n"


def run(
    flavor: str, seeds: Sequence[int], note: str, *, again: bool = False, minutes: float = math.inf, jobs: int = 1
) -> bool:
    """Run the seeds that the report lacks, and return whether all healed and no history has a problem.

    Args:
        flavor: The flavor of the servers.
        seeds: The seeds.
        note: What the times of the results depend on.
        again: Whether seeds that the report has run again.
        minutes: Time after which no further seed begins.
        jobs: The number of seeds that run at the same time, each in a process of its own.
    """
    report = read_report(flavor)
    if again:
        report["runs"] = [each for each in report["runs"] if each["seed"] not in seeds]
        _write(flavor, report)
    runs: dict[int, dict[str, Any]] = {each["seed"]: each for each in report["runs"]}
    lacking = [seed for seed in seeds if seed not in runs or runs[seed]["unhealed"]]
    for found in _results(flavor, lacking, time.monotonic() + 60 * minutes, jobs):
        seed = found["seed"]
        before = runs.get(seed)
        facts = {"date": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count(), "note": note}
        repeated = before["repeated"] + 1 if before is not None else 0
        runs[seed] = found | facts | {"repeated": repeated}
        report["runs"] = [runs[each] for each in sorted(runs)]
        _write(flavor, report)
        print(f"{flavor}: {_unhealed(found) if found['unhealed'] else f'seed {_row(found)}'}", flush=True)
    return not any(each["problems"] or each["unhealed"] for each in runs.values())


def _write(flavor: str, report: dict[str, Any]) -> None:
    """Write a report, and the page with the results of all reports."""
    path = report_of(flavor)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    PAGE.write_text(render(map(read_report, SERVERS)))


def _results(flavor: str, seeds: Sequence[int], deadline: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the result of each seed as it ends; no seed begins after the deadline, a time of the monotonic clock."""
    waiting = itertools.takewhile(lambda _: time.monotonic() <= deadline, seeds)
    if jobs == 1:
        yield from (_result(flavor, seed) for seed in waiting)
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(_result, flavor, seed) for seed in itertools.islice(waiting, jobs)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(_result, flavor, seed) for seed in itertools.islice(waiting, len(ended))}
            yield from (each.result() for each in ended)


def _result(flavor: str, seed: int) -> dict[str, Any]:
    return asyncio.run(_history(SERVERS[flavor], seed))


async def _history(server: str, seed: int) -> dict[str, Any]:
    from mysqlcluster.agent.session import DriverError
    from tests.history import run_seed
    from tests.members import members_of

    with tempfile.TemporaryDirectory() as directory, members_of(Path(directory), 3, server=server) as members:
        try:
            found = asdict(await run_seed(members, seed))
        except (AssertionError, DriverError, OSError) as problem:
            # The cluster did not start, or a member cannot be read.
            found = without_result(seed, str(problem) or type(problem).__name__)
    unhealed = found["unhealed"].partition("\n")[0][:MAX_REASON_CHARACTERS]
    return found | {"unhealed": unhealed, "longest_gap": round(found["longest_gap"], 2)}


def without_result(seed: int, unhealed: str) -> dict[str, Any]:
    """Return the result of a seed whose cluster did not start, or whose members could not be read."""
    counts: dict[str, Any] = {"acknowledged": 0, "unknown": 0, "longest_gap": 0.0}
    return {"seed": seed, "faults": [], **counts, "problems": [], "unhealed": unhealed}


def main() -> None:
    """Run seeds or render the page, according to the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flavor", nargs="?", default="mariadb", choices=tuple(SERVERS))
    parser.add_argument("--seeds", type=int, default=100, help="the number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--again", action="store_true", help="run also the seeds that the report has")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time after which no further seed begins")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds run at the same time")
    parser.add_argument("--note", default="", help="a remark about the machine, for the report")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    sound = True
    if not arguments.render:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        sound = run(
            arguments.flavor,
            seeds,
            arguments.note,
            again=arguments.again,
            minutes=arguments.minutes,
            jobs=arguments.jobs,
        )
    PAGE.write_text(render(map(read_report, SERVERS)))
    if not sound:
        sys.exit("a history has a problem, or a cluster did not heal: see docs/histories.md")


if __name__ == "__main__":
    main()
