"""What the scripts that measure have in common: their options, percentiles, reports, and the figures of the README."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of all scripts that measure."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="the number of runs or samples")
    parser.add_argument("--note", default="", help="a remark about the machine, for the report")
    parser.add_argument("--render", action="store_true", help="only write the figures of the last report again")
    return parser


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of values in ascending order; `share` is from 0 to 1."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def between(text: str, begin: str, end: str, figures: str) -> str:
    """Return a text with figures between two markers."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{figures}\n{end}{after}"


def publish(
    file: Path,
    measured: dict[str, Any] | None,
    render: Callable[[dict[str, Any]], str],
    with_figures: Callable[[str, dict[str, Any]], str],
) -> None:
    """Write a report, if there is a new one, and print its figures and write them into the README."""
    if measured is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(measured, indent=1) + "\n")
    report: dict[str, Any] = json.loads(file.read_text())
    README.write_text(with_figures(README.read_text(), report))
    print(render(report))
