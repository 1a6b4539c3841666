"""Measures how the explorer finds the planted and the public bugs, and writes the tables of `docs/survival.md`.

python -m tests.testing.explore.report                  # measures, and writes report.json and the tables
python -m tests.testing.explore.report --render         # writes the tables from report.json
python -m tests.testing.explore.report --explorations   # reads what `make explore` found, and writes both
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from steersman.testing.explore import explore
from steersman.testing.explore.decorator import Explored
from steersman.testing.explore.planning import candidates
from steersman.testing.explore.separate import Importable

from . import test_planted, test_public_bugs, test_sequences
from .planted import CLASSES
from .public_bugs.bug import exploration

REPORT = Path(__file__).parent / "report.json"
ROOT = Path(__file__).parents[3]
PAGE = Path(__file__).parents[3] / "docs" / "survival.md"
EXPLORATIONS = ROOT / "build" / "explorations"
"""The results of `make explore`, one file for each explored system."""
SYSTEMS = {
    "controllers": "built-in controllers", "helloapp": "HelloApp", "configmonitor": "ConfigMonitor",
    "sidecarset": "SidecarSet", "mysqlcluster": "MySQLCluster", "rocketmq": "RocketMQ",
}  # fmt: skip
FAULTS = {
    "crashes, lost answers, conflicts": ("absent", "conflict", "crash-after", "crash-before", "lose-answer"),
    "late and missed events": ("hold", "miss"),
}
BEGIN, END = "<!-- explorer report: begin -->\n", "<!-- explorer report: end -->\n"


PLAN_MILLISECONDS = 50
"""The objective for the CPU time of a plan of HelloApp on an idle machine."""
SIEVE = {
    "operators": 9, "bugs": 31, "unpruned": 197_896, "plans": 2_135, "hours": 5, "minutes": "5 to 30",
}  # fmt: skip
"""The figures of the artifact evaluation of Sieve: the bugs that it reproduces with one plan each, in five hours, and
the sums of the plans of its operators without and with all reductions. Source: README.md of the branch osdi-ae of
https://github.com/sieve-project/sieve, at 431800aaaabd0e9f98e7625d0281b531d0098ad0.
"""


def of_helloapp() -> dict[str, Any]:
    """Return the cost of the plans of HelloApp, with the CPU time of this process and of all forks."""
    directory = ROOT / "operators" / "helloapp"
    sys.path.append(str(directory))
    place = Importable(
        "test_survival",
        str(directory / "tests" / "test_survival.py"),
        "test_a_helloapp_survives_crashes_lost_answers_and_conflicts",
    )
    request = replace(place.load().request(), jobs=1, budget=600.0)
    explore(replace(request, pairs=False, plans=()))  # what the first exploration of a process prepares
    before = _cpu_seconds()
    result = explore(request)
    seconds = _cpu_seconds() - before
    assert not result.failures
    return {
        "runs": result.runs,
        "pruned": len(result.pruned),
        "endedEarly": result.converged,
        "cpuSeconds": round(seconds, 2),
        "cpuMillisecondsPerPlan": round(1000 * seconds / result.runs, 1),
    }


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def of_plans(name: str, explored: Explored) -> dict[str, Any]:
    """Return the row of a bug that a plan of faults finds."""
    request = explored.request()
    result = explored.explore()
    assert result.reference is not None
    assert result.failures, name
    found = candidates(result.reference.trace, request.perturb, external=request.external)
    return {
        "bug": name,
        "plans": len(found.plans),
        "pruned": len(found.pruned),
        "runs": result.runs,
        "cpuSeconds": round(result.cpu, 2),
        "found": str(result.failures[0].plan),
    }


def of_sequences(name: str) -> dict[str, Any]:
    """Return the row of a bug that a sequence of changes finds."""
    result = test_sequences.explored(name, correct=False)
    assert result.failure is not None, name
    changes = len(result.failure.sequence.manifests)
    return {
        "bug": name, "plans": None, "pruned": None, "runs": result.exploration.runs,
        "cpuSeconds": round(result.exploration.cpu, 2), "found": f"{changes} changes",
    }  # fmt: skip


def measured(note: str) -> dict[str, Any]:
    """Run all explorations, one process at a time.

    Args:
        note: The conditions of the measurement, such as `idle machine`.
    """
    rows = [of_plans(name, test_planted.exploration(name, correct=False)) for name in CLASSES]
    rows += [of_plans(name, exploration(bug, correct=False)) for name, bug in test_public_bugs.BUGS.items()]
    rows += [of_sequences(name) for name in test_sequences.ACTO]
    found = {"python": platform.python_version(), "machine": platform.machine(), "note": note}
    return {**found, "helloapp": of_helloapp(), "rows": rows}


def of_explorations(directory: Path, note: str) -> dict[str, Any]:
    """Return the sums of the explorations that `make explore` has recorded.

    Args:
        directory: The directory with a file of results for each system.
        note: The conditions of the run.
    """
    rows: list[dict[str, Any]] = []
    for name in SYSTEMS:
        lines = (directory / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        results = [json.loads(line) for line in lines]
        for faults, kinds in FAULTS.items():
            found = [one for one in results if one["tried"] and one["tried"].keys() <= {*kinds}]
            rows.append(
                {
                    "system": name,
                    "faults": faults,
                    "scenarios": len(found),
                    "faultsInjected": sum(sum(one["tried"].values()) for one in found),
                    "pruned": sum(len(one["pruned"]) for one in found),
                    "left": sum(one["left"] for one in found),
                    "failures": sum(len(one["failures"]) for one in found),
                    "runs": sum(one["runs"] for one in found),
                    "cpuSeconds": round(sum(one["cpuSeconds"] for one in found), 1),
                }
            )
    return {"python": platform.python_version(), "machine": platform.machine(), "note": note, "rows": rows}


def rendered(report: dict[str, Any]) -> str:
    """Return the table of a report as Markdown."""
    lines = [
        "| bug | plans | pruned | runs until it is reduced | CPU seconds | found by |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        plans, pruned = ("" if row[key] is None else row[key] for key in ("plans", "pruned"))
        lines.append(
            f"| `{row['bug']}` | {plans} | {pruned} | {row['runs']} | {row['cpuSeconds']:.2f} | `{row['found']}` |"
        )
    runs = sum(row["runs"] for row in report["rows"])
    cpu = sum(row["cpuSeconds"] for row in report["rows"])
    helloapp = report["helloapp"]
    each = helloapp["cpuMillisecondsPerPlan"]
    verdict = "within" if each <= PLAN_MILLISECONDS else "above"
    lines += [
        "",
        f"CPU time of a plan of HelloApp: {each:.0f} ms, {verdict} the objective of {PLAN_MILLISECONDS} ms "
        f"({helloapp['runs']} runs in\n{helloapp['cpuSeconds']:.0f} s, of which {helloapp['endedEarly']} ended early; "
        f"{helloapp['pruned']} plans were pruned).",
        "",
        f"All {len(report['rows'])} bugs take {runs} runs and {cpu:.0f} seconds of CPU on one processor.",
        f"Python {report['python']}, {report['machine']}; {report['note']}.",
        "",
        *_comparison(report["rows"], runs, cpu),
        *(_explorations(report["explorations"]) if "explorations" in report else ()),
    ]
    return "\n".join(lines) + "\n"


def _comparison(rows: list[dict[str, Any]], runs: int, cpu: float) -> list[str]:
    """Return the table of the figures of Sieve and of this report."""
    plans = sum(row["plans"] or 0 for row in rows)
    pruned = sum(row["pruned"] or 0 for row in rows)
    return [
        "| | Sieve | Steersman |",
        "|---|---|---|",
        f"| operators | {SIEVE['operators']} real ones | {len(rows)} minimal ones |",
        f"| plans without pruning | {SIEVE['unpruned']:,} | {plans + pruned:,} |",
        f"| plans after pruning | {SIEVE['plans']:,} | {plans:,} |",
        f"| bugs found | {SIEVE['bugs']} | {sum(row['found'] != '' for row in rows)} |",
        f"| time for these bugs | about {SIEVE['hours']} hours, with their plans known | {cpu:.0f} s of CPU |",
        f"| time of a plan | {SIEVE['minutes']} minutes on a kind cluster | {1000 * cpu / runs:.0f} ms of CPU |",
    ]


def _explorations(report: dict[str, Any]) -> list[str]:
    """Return the table of the systems that `make explore` explores."""
    lines = [
        "",
        "| system | faults | scenarios | faults injected | plans pruned | left out by the budget | failures "
        "| CPU of a run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        each = f"{1000 * row['cpuSeconds'] / row['runs']:.0f} ms" if row["runs"] else ""
        lines.append(
            f"| {SYSTEMS[row['system']]} | {row['faults']} | {row['scenarios']} | {row['faultsInjected']:,} "
            f"| {row['pruned']:,} | {row['left']:,} | {row['failures']} | {each} |"
        )
    return [*lines, "", f"Python {report['python']}, {report['machine']}; {report['note']}."]


def page_with(table: str, page: str) -> str:
    """Return the page with another table between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Measure or read the report, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", action="store_true", help="write the tables from report.json without measuring")
    parser.add_argument("--explorations", action="store_true", help="take the results of `make explore` instead")
    parser.add_argument("--note", default="idle machine", help="the conditions of the measurement")
    options = parser.parse_args()
    report: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))
    if options.explorations:
        report["explorations"] = of_explorations(EXPLORATIONS, options.note)
    elif not options.render:
        report |= measured(options.note)
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_with(rendered(report), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
