"""One seed gives one audit log and one trace, byte for byte, on each Python that the project supports."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSIONS = re.findall(r'Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SEED = "7"


def interpreter(version: str) -> str | None:
    """Return the path of a Python of a version: on PATH, of pyenv or of uv."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    candidates = [
        *sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python3")),
        *filter(None, [shutil.which(f"python{version}")]),
        *sorted(glob.glob(f"{data}/uv/python/cpython-{version}.*/bin/python3")),
    ]
    for found in candidates:
        if subprocess.run([found, "-c", "import ctypes, ssl"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def printed(python: str, *, hash_seed: str) -> bytes:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src", ROOT / "packages" / "steersman-cluster" / "src")))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
    command = [python, "-m", "tests.testing.explore.audited", SEED]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def expected() -> bytes:
    """What this Python prints."""
    return printed(sys.executable, hash_seed="1")


@pytest.mark.slow
def test_another_process_with_other_hashes_prints_the_same(expected: bytes) -> None:
    assert b" create /api/v1/" in expected
    assert b"WriteRecord(number=2" in expected
    assert printed(sys.executable, hash_seed="2") == expected


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_each_python_prints_the_same(version: str, expected: bytes, tmp_path: Path) -> None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip(f"Python {version} is the one that runs the tests")
    if (base := interpreter(version)) is None:
        pytest.skip(f"Python {version} is not installed")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([*uv, "venv", "--python", base, str(tmp_path / "venv")], check=True, timeout=120)
    install = [*uv, "pip", "install", "--python", python, "--require-hashes", "-r", "requirements/dev.txt"]
    installed = subprocess.run(install, cwd=ROOT, capture_output=True, timeout=600, check=False)
    if installed.returncode:
        pytest.skip(f"Python {version}: the packages cannot be installed: {installed.stderr.decode()[-300:]}")
    assert printed(python, hash_seed="3") == expected
