"""The names that the distribution `steersman-cluster` exports, and the program of its README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import steersman_cluster
from steersman_cluster.cluster import DevCluster, Options

README = Path(__file__).parents[2] / "packages" / "steersman-cluster" / "README.md"


def test_the_public_names_are_those_of_the_modules():
    assert steersman_cluster.DevCluster is DevCluster
    assert steersman_cluster.Options is Options


def test_importing_the_package_loads_no_server():
    program = (
        "import sys, steersman_cluster; print(sorted(m for m in sys.modules if m.startswith('steersman_cluster.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_program_of_the_readme_runs(tmp_path: Path):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(r"^v1\.\d+\.\d+ https://127\.0\.0\.1:\d+ \S+/kubeconfig$", done.stdout, re.MULTILINE)
