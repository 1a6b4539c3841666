"""The pictures of the documentation are current."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from steersman.cli.operator_loader import load_operator
from steersman.manifests import Package
from steersman.manifests.monitoring import dashboard as dashboard_of

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "hack"))

import dashboard  # noqa: E402
import panels  # noqa: E402
import pictures  # noqa: E402


def test_the_picture_of_the_packages_is_up_to_date() -> None:
    assert (ROOT / "docs/images/packages.svg").read_text() == pictures.packages(), (
        "run `python hack/pictures.py packages`"
    )


def test_pictures_load_nothing_from_elsewhere() -> None:
    for picture in (ROOT / "docs/images").glob("*.svg"):
        assert "url(http" not in picture.read_text()


@pytest.mark.slow
def test_the_live_view_can_be_drawn() -> None:
    script = "import pictures; print(pictures.dev())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "hack", capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Deployment" in done.stdout
    assert "running" in done.stdout


def test_the_picture_of_the_dashboard_has_the_panels_of_today() -> None:
    operator = load_operator("sidecarset:operator", dashboard.PROJECT)
    wanted = json.loads(dashboard_of(Package(operator, target="sidecarset:operator")))["panels"]
    drawn = (ROOT / "docs/images/dashboard.svg").read_text()
    titles = re.findall(r'font-weight="bold"[^>]*>([^<]+)<', drawn)
    assert titles == [panel["title"] for panel in wanted], "run `python hack/dashboard.py docs/images/dashboard.svg`"


def test_a_line_of_a_panel_is_interrupted_where_there_is_no_number() -> None:
    points = ((0.0, 1.0), (10.0, math.nan), (20.0, 2.0), (30.0, 2.0))
    panel = panels.Panel("Reconciles", "ops", (panels.Series("ok", points), panels.Series("none", ((0.0, 0.0),))))
    drawn = panels.drawn([panel], 30.0)
    (line,) = re.findall(r'<path d="(M[^"]+)" fill="none"', drawn)
    assert line.count("M") == 2
    assert ">2/s<" in drawn
    assert ">none<" not in drawn


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Prometheus: apt install prometheus")
def test_the_dashboard_shows_what_prometheus_scrapes() -> None:
    shown = {panel.title: panel for panel in dashboard.record(15.0)}
    assert [title for title, panel in shown.items() if not panel.series] == []
    assert any(value > 0 for one in shown["Reconciles"].series for _, value in one.points)
    assert any(value > 0 for one in shown["Objects in the caches"].series for _, value in one.points)
