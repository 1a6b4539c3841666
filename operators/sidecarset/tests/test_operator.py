"""The operator as a whole."""

import subprocess
import sys
from pathlib import Path

from sidecarset import operator

PROJECT = Path(__file__).parent.parent


def test_the_operator_has_the_name_of_the_project():
    assert operator.name == "sidecarset"


def test_the_manifests_are_up_to_date():
    """If this fails, run `make manifests`."""
    check = [sys.executable, "-m", "steersman", "manifests", "sidecarset:operator", "--check"]
    done = subprocess.run(check, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
