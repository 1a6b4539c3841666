"""Measures how the explorer finds the planted and the public bugs, and writes the table of `docs/survival.md`.

python -m tests.testing.explore.report            # measures, and writes report.json and the table
python -m tests.testing.explore.report --render   # writes the table from report.json
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

from steersman.testing.explore.decorator import Explored
from steersman.testing.explore.planning import candidates

from . import test_planted, test_public_bugs, test_sequences
from .planted import CLASSES
from .public_bugs.bug import exploration

REPORT = Path(__file__).parent / "report.json"
PAGE = Path(__file__).parents[3] / "docs" / "survival.md"
BEGIN, END = "<!-- explorer report: begin -->\n", "<!-- explorer report: end -->\n"


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
    lines += [
        "",
        f"All {len(report['rows'])} bugs take {runs} runs and {cpu:.0f} seconds of CPU on one processor.",
        f"Python {report['python']}, {report['machine']}; {report['note']}.",
    ]
    return "\n".join(lines) + "\n"


def page_with(table: str, page: str) -> str:
    """Return the page with another table between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Measure or read the report, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", action="store_true", help="write the table from report.json without measuring")
    parser.add_argument("--note", default="idle machine", help="the conditions of the measurement")
    options = parser.parse_args()
    if not options.render:
        REPORT.write_text(json.dumps(measured(options.note), indent=1) + "\n", encoding="utf-8")
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    PAGE.write_text(page_with(rendered(report), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
