"""Walks as a new user takes them: an empty home, and a virtual environment of what the page installs.

`STEERSMAN_RECORD_WALKS=1` writes the records below docs/walks anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_walks import DOCS, ROOT, WALKS

sys.path.insert(0, str(ROOT / "hack"))

import walk

RECORDED: Final = ("tutorials/cronjob.md", "how-to/from-kopf.md", "how-to/other-languages.md")
PAGES: Final = (*RECORDED, "../README.md", "tutorials/first-operator.md", "tutorials/helloapp.md")
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
def package_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the walks where pip cannot reach a package index."""
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"needs a package index: {done.stderr.strip().splitlines()[-1]}")


@pytest.mark.usefixtures("package_index")
@pytest.mark.parametrize("page", PAGES)
def test_a_new_user_can_follow_the_page(page: str, wheels: Path, tmp_path: Path) -> None:
    missing = [name for name in WALKS[page].needs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    place = tmp_path / "work"
    place.mkdir()

    outcomes = walk.walk(DOCS / page, place, walk.environment(tmp_path, clean=True, wheels=wheels), clean=True)
    told = list(walk.transcript(outcomes, tmp_path))

    commands = [step for step in walk.steps((DOCS / page).read_text()) if isinstance(step, walk.Command)]
    assert len(told) == len(commands)
    if page in RECORDED and os.environ.get("STEERSMAN_RECORD_WALKS"):
        (RECORDS / f"{Path(page).stem}.txt").write_text("\n".join(told) + "\n")
