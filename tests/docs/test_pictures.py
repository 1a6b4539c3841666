"""The pictures of the documentation show what is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "hack"))

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
