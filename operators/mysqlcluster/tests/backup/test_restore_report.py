"""The figures of restores in the README match the report of `hack/measure_restore.py`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts import script

PROJECT = Path(__file__).parents[2]
measure_restore = script("measure_restore")


def test_the_readme_has_the_figures_of_the_report():
    report = json.loads((PROJECT / "docs/reports/restore.json").read_text())
    readme = (PROJECT / "README.md").read_text()
    assert measure_restore.render(report) in readme
    assert measure_restore.with_figures(readme, report) == readme
    again = measure_restore.summary(report["seconds"], report["server"])
    assert (again["median"], again["p95"]) == (report["median"], report["p95"])
    assert len(report["seconds"]) >= 20


def test_the_percentile_is_the_nearest_rank():
    assert measure_restore.summary([float(each) for each in range(1, 21)], "x")["p95"] == 19.0
    assert measure_restore.summary([3.0], "x")["p95"] == 3.0
