"""The gate passes despite a failure that does not repeat, and names it at the end; other failures count."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow

STEADY = "def test_steady():\n    pass\n"
BROKEN = "def test_broken():\n    assert False\n"
FLAKY = """
from pathlib import Path


def test_{name}():
    seen = Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first time"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "hack").mkdir()
    shutil.copy(ROOT / "hack" / "tests.sh", tmp_path / "hack")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for name in ("operators/one", "examples/two"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / name / "test_it.py").write_text(STEADY)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_steady.py").write_text(STEADY)
    return tmp_path


def gate(project, forgive, *words):
    removed = ("PYTEST_", "FORGIVE", "PROJECTS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(
        ["bash", "hack/tests.sh", *words],
        cwd=project,
        env=environment | ({"FORGIVE": str(forgive)} if forgive else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_flake_is_forgiven_once_and_named(project):
    (project / "tests" / "test_flaky.py").write_text(FLAKY.format(name="a"))
    (project / "operators" / "one" / "test_too.py").write_text(FLAKY.format(name="b"))

    done = gate(project, forgive=2)

    assert done.returncode == 0, done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FLAKY")] == [
        "tests/test_flaky.py::test_a",
        "test_too.py::test_b",
    ]
    assert "the first time" in done.stdout


def test_nothing_is_forgiven_unless_asked(project):
    (project / "tests" / "test_flaky.py").write_text(FLAKY.format(name="a"))

    done = gate(project, forgive=0)

    assert done.returncode == 1
    assert "once more" not in done.stdout


def test_what_fails_twice_and_what_fails_in_numbers_fails(project):
    (project / "tests" / "test_broken.py").write_text(BROKEN)
    twice = gate(project, forgive=2)
    for name in "abc":
        (project / "tests" / f"test_{name}.py").write_text(FLAKY.format(name=name))
    many = gate(project, forgive=2)

    assert twice.returncode == many.returncode == 1
    assert "1 failed: once more, alone" in twice.stdout
    assert "once more" not in many.stdout
    assert "FLAKY" not in twice.stdout + many.stdout


def test_the_gate_is_for_all_projects(project):
    (project / "examples" / "two" / "test_broken.py").write_text(BROKEN)

    done = gate(project, forgive=1)

    assert done.returncode == 1
    assert done.stdout.count("1 passed") == 3
    assert "FAILED test_broken.py::test_broken" in done.stdout


def test_the_tests_on_a_real_node_run_alone_and_a_flake_runs_again_on_a_node(project):
    (project / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--cluster')\n")
    (project / "tests" / "node").mkdir()
    flaky = FLAKY.format(name="node").replace("():", "(pytestconfig):")
    flaky += "    assert pytestconfig.getoption('--cluster') == 'node'\n"
    (project / "tests" / "node" / "test_flaky.py").write_text(flaky)

    done = gate(project, 1, "--node")

    assert done.returncode == 0, done.stdout
    assert "FLAKY: tests/node/test_flaky.py::test_node" in done.stdout
    assert done.stdout.count("passed") == 2
