"""The lock files of operators in this repository pin everything that the framework needs at run time."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.scaffold.lock_file import lock_text

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("operators/*/requirements.lock"))


def names(text: str) -> set[str]:
    return {line.partition("==")[0].strip() for line in text.splitlines() if "==" in line}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.parent.name)
def test_a_lock_file_covers_what_the_framework_needs(path: Path) -> None:
    missing = names(lock_text()) - names(path.read_text()) - {"steersman"}
    assert not missing, f"{path.relative_to(ROOT)} lacks {', '.join(sorted(missing))}: write it anew with `make lock`"


def test_there_is_a_lock_file_to_look_at() -> None:
    assert LOCKS
