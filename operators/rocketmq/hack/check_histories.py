"""Runs histories of messages on real servers under the faults of seeds, and writes a report of the results.

    python hack/check_histories.py DLEDGER --seeds 25   seeds 0 to 24, into docs/reports/histories-dledger.json
    python hack/check_histories.py --render             writes only docs/histories.md, from the reports

Each seed chooses faults. Producers send numbered messages during all of them, and afterwards all messages are read. The
report is written after each seed, so that an interrupted run keeps its results, and the same command continues it. A
seed that is already in the report runs again only with `--again`, which first removes the results of its seeds, except
the numbers of their lost or disordered messages. A seed that did not end, for example because its group did not heal,
has a problem instead of a result. It runs again, the report counts its attempts, and the next seed gets a new cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Generator, Iterable, Sequence
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

`python hack/check_histories.py MODE --seeds 25` runs the seeds of a mode that its report lacks.
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
        runs = [each for each in report["runs"] if "problem" not in each]
        problems = [each for each in report["runs"] if "problem" in each]
        if not report["runs"]:
            continue
        lost, disordered, messages = (
            sum(each[name] for each in runs) for name in ("lost", "disordered", "acknowledged")
        )
        parts.append(f"## {report['mode']}\n")
        parts.append(f"{len(runs)} seeds, {messages} acknowledged messages: {lost} lost, {disordered} out of order.")
        if repeated := sum(each.get("repeated", 0) for each in report["runs"]):
            attempts = "earlier attempt" if repeated == 1 else "earlier attempts"
            parts.append(f"{repeated} {attempts} did not end, and ran again.")
        for seed, wrong in report.get("earlier", {}).items():
            parts.append(
                f"An earlier run of seed {seed} had {wrong} messages lost or out of order; the seed ran again."
            )
        parts.append(f"{_circumstances(report['runs'])}.\n")
        parts.append(
            "| seed | acknowledged | lost | out of order | duplicates | gap | faults |\n|---|---|---|---|---|---|---|"
        )
        parts += [_row(each) for each in runs]
        parts.append("")
        parts += [_problem(each) for each in problems]
    return "\n".join(parts)


def _problem(run: dict[str, Any]) -> str:
    return textwrap.fill(f"Seed {run['seed']} did not end: {'; '.join(run['faults'])}.", 120) + "\n"


def _circumstances(runs: Sequence[dict[str, Any]]) -> str:
    """Return the dates, the machine and the notes of runs."""
    dates = sorted({each["date"] for each in runs})
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    cores = " and ".join(str(each) for each in sorted({each["cores"] for each in runs}))
    notes = "".join(f"; {each}" for each in sorted({each["note"] for each in runs if each["note"]}))
    return f"{period}, {cores} cores, embedded cluster{notes}"


def _row(run: dict[str, Any]) -> str:
    numbers = (run[name] for name in ("seed", "acknowledged", "lost", "disordered", "duplicates"))
    return f"| {' | '.join(map(str, numbers))} | {run['gap']:.1f} s | {'; '.join(run['faults'])} |"


def run(mode: str, seeds: Sequence[int], note: str, *, again: bool = False, minutes: float = math.inf) -> bool:
    """Run the seeds that the report lacks, and return whether all ended without lost or disordered messages.

    Args:
        mode: the mode of the group.
        seeds: the seeds.
        note: what the times of the results depend on.
        again: whether seeds that the report has run again.
        minutes: time after which no further seed begins.
    """
    report = read_report(mode)
    if again:
        _remove(report, seeds)
        _write(report)
    runs: dict[int, dict[str, Any]] = {each["seed"]: each for each in report["runs"]}
    done = {seed for seed, result in runs.items() if "problem" not in result}
    facts = {"date": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count(), "note": note}
    deadline = time.monotonic() + 60 * minutes
    with contextlib.closing(_results(mode, [seed for seed in seeds if seed not in done])) as results:
        for result in results:
            before = runs.get(result["seed"])
            repeated = {"repeated": before.get("repeated", 0) + 1} if before is not None else {}
            runs[result["seed"]] = result | facts | repeated
            report["runs"] = [runs[seed] for seed in sorted(runs)]
            _write(report)
            print(f"{mode}, seed {_row(result)}" if "problem" not in result else f"{mode}: {result}", flush=True)
            if time.monotonic() > deadline:
                break
    return not any(each.get("problem") or each["lost"] or each["disordered"] for each in runs.values())


def _remove(report: dict[str, Any], seeds: Sequence[int]) -> None:
    """Remove the results of seeds; the report keeps the numbers of their lost or disordered messages."""
    removed = [each for each in report["runs"] if each["seed"] in seeds]
    report["runs"] = [each for each in report["runs"] if each["seed"] not in seeds]
    for each in removed:
        if wrong := each.get("lost", 0) + each.get("disordered", 0):
            earlier = report.setdefault("earlier", {})
            earlier[str(each["seed"])] = earlier.get(str(each["seed"]), 0) + wrong


def _write(report: dict[str, Any]) -> None:
    """Write a report, and the page with the results of all reports."""
    path = report_of(report["mode"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    PAGE.write_text(render(map(read_report, MODES)))


def _results(mode: str, seeds: Sequence[int]) -> Generator[dict[str, Any]]:
    """Yield the result of each seed; after a seed with a problem, the next one gets a new cluster."""
    left = list(seeds)
    while left:
        with contextlib.closing(_results_in_one_cluster(mode, left)) as results:
            for result in results:
                left.remove(result["seed"])
                yield result


def _results_in_one_cluster(mode: str, seeds: Sequence[int]) -> Generator[dict[str, Any]]:
    """Yield the result of each seed, up to the first one with a problem."""
    from steersman.logs import configure

    from rocketmq.remoting import RemotingError
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
        try:
            group = started(cluster, operator.ports, servers=name_service(2), **image, **SPECS[mode])
        except (AssertionError, RemotingError) as problem:
            yield {"seed": seeds[0], "faults": [], "problem": f"the group did not start: {problem}"}
            return
        shop = Shop(cluster, operator, group)
        for seed in tuple(seeds):
            chosen = faults_of(seed)
            run_of = {"seed": seed, "faults": [str(each) for each in chosen]}
            try:
                found = run_history(shop, f"orders-{seed}", chosen)
            except (AssertionError, RemotingError) as problem:
                yield run_of | {"problem": str(problem)}
                return
            yield run_of | {
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
    parser.add_argument("--minutes", type=float, default=math.inf, help="time after which no further seed begins")
    parser.add_argument("--note", default="", help="what else the figures depend on, such as other load")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    sound = True
    if not arguments.render:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        sound = run(arguments.mode, seeds, arguments.note, again=arguments.again, minutes=arguments.minutes)
    PAGE.write_text(render(map(read_report, MODES)))
    if not sound:
        sys.exit("acknowledged messages were lost or out of order, or a group did not heal")


if __name__ == "__main__":
    main()
