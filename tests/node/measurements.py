"""Measured values of the runs on a real node, and the page that shows them. No test asserts a time."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

REPORT = Path(__file__).parents[2] / "docs" / "reference" / "real-node.md"

_HEAD = """\
<!-- Made by `make test-node REPORT=1`. -->
# Measurements on a real node

Measured {date} on a machine with {machine}, at a load average of {load:.0f} processes.
The rows come from the tests in `tests/node`. A load above the number of CPUs makes the times longer.
[Testing operators](../testing.md#a-real-node) says how to run the tests.

| what | measured | objective |
|---|---|---|
"""


@dataclass
class Measurements:
    """The values of one test run."""

    rows: dict[str, tuple[str, str]] = field(default_factory=dict)

    def seconds(self, what: str, value: float, objective: float | None = None) -> None:
        """Record a time; `objective` is the greatest time that the project aims at."""
        self.rows[what] = (f"{value:.1f} s", "" if objective is None else f"≤ {objective:g} s")

    def megabytes(self, what: str, value: float, objective: float | None = None) -> None:
        """Record an amount of memory or storage in bytes, shown in MB (10⁶ bytes)."""
        self.rows[what] = (f"{value / 1e6:.0f} MB", "" if objective is None else f"≤ {objective:g} MB")

    def text(self) -> str:
        """Return the page."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        machine = f"{os.cpu_count()} CPUs, {memory:.0f} GB of memory, Linux {platform.release().partition('-')[0]}"
        rows = "".join(f"| {what} | {value} | {limit} |\n" for what, (value, limit) in self.rows.items())
        return _HEAD.format(date=datetime.now(UTC).date(), machine=machine, load=os.getloadavg()[1]) + rows

    def write(self) -> None:
        """Print the rows, and write the page if the environment variable REPORT is set."""
        print(json.dumps(self.rows, indent=1, ensure_ascii=False))
        if os.environ.get("REPORT", "") not in ("", "0"):
            REPORT.write_text(self.text())
