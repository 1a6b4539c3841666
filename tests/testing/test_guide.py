"""The examples of docs/testing.md, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.slow
def test_the_examples_of_the_guide_pass(tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 5
    (tmp_path / "test_guide.py").write_text("\n\n".join(examples))

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "steersman.testing.plugin", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
    assert f"{sum(e.count('def test_') for e in examples)} passed" in done.stdout
