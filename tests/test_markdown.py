"""Pages are readable as text: lines of Markdown have at most 120 characters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_COLUMNS = 120
GENERATED = (
    "benchmarks/embedded.md",
    "benchmarks/report.md",
    "benchmarks/webhook.md",
    "docs/reference/commands.md",
    "docs/reference/settings.md",
)


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    return sorted(set(listed.stdout.split()) - set(GENERATED))


def long_lines(text: str) -> list[int]:
    """Return the numbers of long lines of prose; code blocks, tables and images cannot be wrapped."""
    found, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(("|", "![")) and len(line) > MAX_COLUMNS:
            found.append(number)
    return found


def test_lines_of_pages_have_at_most_120_characters() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout, which lists the pages")
    found = [f"{page}:{number}" for page in pages() for number in long_lines((ROOT / page).read_text(encoding="utf-8"))]
    assert not found, f"wrap at {MAX_COLUMNS} characters: {', '.join(found)}"


def test_code_blocks_and_tables_may_be_longer() -> None:
    long = "x" * (MAX_COLUMNS + 1)
    assert long_lines(f"{long}\n```\n{long}\n```\n| {long} |\n{long}") == [1, 6]
