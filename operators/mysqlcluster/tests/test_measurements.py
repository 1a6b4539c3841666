"""The scripts that measure: figures of reports, and their place in the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts import script

PROJECT = Path(__file__).parent.parent


failover, idle = script("measure_failover"), script("measure_idle")
TIMES = failover.summary([float(each) for each in range(1, 21)])
FAILOVER = {
    "date": "2026-01-01",
    "cores": 2,
    "note": "",
    "flavors": {"mariadb": {"failover": TIMES, "switchover": failover.summary([2.0])}},
}
IDLE = {
    "date": "2026-01-01",
    "cores": 2,
    "note": "a busy machine",
    "clusters": 100,
    "cpu_percent": 1.5,
    "rss_mb": 80.0,
    "samples": [1.4, 1.5, 1.6],
}


@pytest.mark.parametrize(("module", "report"), [(failover, FAILOVER), (idle, IDLE)], ids=["failover", "idle"])
def test_figures_replace_those_between_the_markers_of_the_readme(module, report):
    readme = (PROJECT / "README.md").read_text()
    assert readme.count(module.BEGIN) == readme.count(module.END) == 1
    once = module.with_figures(readme, report)
    assert module.render(report) in once
    assert module.with_figures(once, report) == once
    assert max(map(len, module.render(report).splitlines())) <= 120


@pytest.mark.parametrize("module", [failover, idle], ids=["failover", "idle"])
def test_the_readme_has_the_figures_of_the_committed_report(module):
    readme, file = (PROJECT / "README.md").read_text(), module.REPORT
    if file.exists():
        assert module.with_figures(readme, json.loads(file.read_text())) == readme
    else:
        assert f"{module.BEGIN}\n{module.END}" in readme


def test_the_percentile_is_the_nearest_rank():
    assert (TIMES["median"], TIMES["p95"], TIMES["longest"]) == (10.5, 19.0, 20.0)
