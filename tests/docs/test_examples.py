"""The Python on the pages of the documentation runs as it stands: each page is a module of tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = (
    "index.md",
    "embedded-cluster.md",
    "manifests.md",
    "testing.md",
    *sorted(str(p.relative_to(DOCS)) for s in ("how-to", "tutorials") for p in DOCS.glob(f"{s}/*.md")),
)
_BLOCK: Final = re.compile(r"^```python(?: title=\"(?P<file>[^\"]+)\")?\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[re.Match[str]]:
    return list(_BLOCK.finditer((DOCS / page).read_text()))


@pytest.mark.slow
def test_the_examples_of_the_pages_pass(tmp_path: Path) -> None:
    expected = 0
    for page in PAGES:
        code = [block["code"] for block in blocks(page) if block["file"] is None]
        if code:
            name = re.sub(r"\W", "_", page.removesuffix(".md"))
            (tmp_path / f"test_{name}.py").write_text("\n\n".join(code))
            expected += sum(len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)) for text in code)
    assert expected >= 12

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "steersman.testing.plugin", "-p", "no:cacheprovider", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{expected} passed" in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_block_with_a_file_name_is_that_file(page: str) -> None:
    for block in blocks(page):
        if block["file"] is not None and not block["file"].startswith(("file: ", "not run: ")):
            file = ROOT / block["file"]
            assert file.is_file(), f"{page}: {block['file']} does not exist"
            assert block["code"].strip() in file.read_text(), f"{page}: {block['file']} is another text"
