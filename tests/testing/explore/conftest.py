"""Pages of failures that these tests provoke are written to a temporary directory."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEERSMAN_EXPLORE_PAGES", str(tmp_path / "pages"))
    return tmp_path / "pages"
