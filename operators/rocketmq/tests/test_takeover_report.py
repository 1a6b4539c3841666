"""The figures of takeovers in the README match the report of `hack/measure_takeover.py`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()
SPEC = importlib.util.spec_from_file_location("measure_takeover", PROJECT / "hack/measure_takeover.py")
assert SPEC is not None
assert SPEC.loader is not None
measure_takeover = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measure_takeover)


def test_the_readme_has_the_figures_of_the_report():
    report = json.loads((PROJECT / "docs/reports/takeover.json").read_text())
    assert measure_takeover.with_figures(README, report) == README
    for found in report["modes"].values():
        assert measure_takeover.summary(found["seconds"], found["attempt"]) == found


def test_the_percentile_is_the_nearest_rank():
    assert measure_takeover.summary([float(each) for each in range(1, 21)], 1.0)["p95"] == 19.0
    assert measure_takeover.summary([3.0], 1.0)["p95"] == 3.0
