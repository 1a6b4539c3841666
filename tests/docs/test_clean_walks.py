"""Walks as a new user takes them: an empty home, and a virtual environment of what the page installs.

`STEERSMAN_RECORD_WALKS=1` writes the records below docs/walks anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_walks import DOCS, ROOT, WALKS, require

sys.path.insert(0, str(ROOT / "hack"))

import walk

RECORDED: Final = ("tutorials/cronjob.md", "how-to/from-kopf.md", "how-to/other-languages.md")
RECORDS: Final = DOCS / "walks"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of this project, built from this tree."""
    out = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "packages/steersman-cluster"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
        subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    return out


@pytest.fixture(scope="module")
def package_index(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Return whether pip can reach a package index."""
    out = tmp_path_factory.mktemp("package")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--retries=0",
        f"--dest={out}",
        "cronsim",
    ]
    return subprocess.run(command, capture_output=True, timeout=120).returncode == 0


@pytest.mark.parametrize("page", [page for page, told in WALKS.items() if told.new])
def test_a_new_user_can_follow_the_page(page: str, wheels: Path, package_index: bool, tmp_path: Path) -> None:
    """Without a package index, the environment of the tests takes the place of what the page installs."""
    require(page)
    if "go" in WALKS[page].needs and not package_index:
        pytest.skip("downloads Go modules")
    place = tmp_path / "work"
    place.mkdir()

    variables = walk.environment(tmp_path, clean=package_index, wheels=wheels)
    outcomes = list(walk.walk(DOCS / page, place, variables, clean=package_index))

    assert outcomes
    if package_index:
        told = list(walk.transcript(outcomes, tmp_path))
        commands = [step for step in walk.steps((DOCS / page).read_text()) if isinstance(step, walk.Command)]
        assert len(told) == len(commands)
        if page in RECORDED and os.environ.get("STEERSMAN_RECORD_WALKS"):
            (RECORDS / f"{Path(page).stem}.txt").write_text("\n".join(told) + "\n")
