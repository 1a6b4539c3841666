"""The README's comparison names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text()


def compared() -> list[tuple[str, str]]:
    """Return each issue about the other operator with the test in the last cell of its row."""
    _, _, section = README.partition("## Compared with Apache's operator")
    rows = re.findall(r"^\| (.+?) \|.*\| `([^`|]+)` \|$", section, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| ", section.partition("\n## ")[0], re.MULTILINE)) - 1
    return rows


@pytest.mark.parametrize(("issue", "test"), compared())
def test_each_complaint_about_the_other_operator_has_a_test(issue: str, test: str):
    sources = [path.read_text() for path in (PROJECT / "tests").glob("test_*.py")]
    found = sum(len(re.findall(rf"^(?:async )?def {test}\(", each, re.MULTILINE)) for each in sources)
    assert found == 1, issue
