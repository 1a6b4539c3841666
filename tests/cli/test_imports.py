"""Imports that the image of a project would lack are found before it is built."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.cli.packaging.imports import find_problems

PYPROJECT = """
[project]
name = "boats"
version = "0.1.0"
dependencies = ["steersman>=0"]

[tool.hatch.build.targets.wheel]
packages = ["boats"]
"""
CODE = """
from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml
from steersman import Operator

from boats import harbour
from . import harbour as again

if TYPE_CHECKING:
    import pytest

try:
    import xdist
except ImportError:
    xdist = None

operator = Operator("boats")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "requirements.lock").write_text("# pinned\nsteersman==1.0\n    --hash=sha256:0\nPyYAML==6.0\n")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "boats").mkdir()
    (tmp_path / "boats" / "__init__.py").write_text(CODE)
    (tmp_path / "boats" / "harbour.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("import hypothesis\n")
    return tmp_path


def messages(project: Path) -> list[str]:
    return [str(problem) for problem in find_problems(project)]


def test_what_a_dependency_brings_and_what_does_not_run_is_no_problem(project: Path) -> None:
    assert messages(project) == []


def test_a_module_of_the_development_environment_is_named_with_its_place(project: Path) -> None:
    (project / "boats" / "harbour.py").write_text("def weather():\n    from hypothesis.strategies import text\n")
    assert messages(project) == [
        "boats/harbour.py:2: the module hypothesis belongs to hypothesis, which is not a dependency of the project; "
        "add hypothesis to `dependencies` in pyproject.toml, then run `make lock`"
    ]


def test_an_extra_counts_when_it_is_declared(project: Path) -> None:
    (project / "boats" / "harbour.py").write_text("import copier\n")
    assert len(messages(project)) == 1
    text = PYPROJECT.replace("steersman>=0", "steersman[dev]>=0")
    (project / "pyproject.toml").write_text(text)
    assert messages(project) == []


def test_a_module_that_nothing_brings_is_uncertain(project: Path) -> None:
    (project / "boats" / "harbour.py").write_text("import nowhere_at_all.deep\n")
    (problem,) = find_problems(project)
    assert (problem.place, problem.certain) == ("boats/harbour.py:1", False)


def test_a_lock_file_without_a_declared_dependency_is_named(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        PYPROJECT.replace('["steersman>=0"]', '["steersman>=0", "Hypothesis~=6.1"]')
    )
    assert messages(project) == [
        "requirements.lock: Hypothesis is missing, which pyproject.toml declares; run `make lock`"
    ]


def test_a_broken_module_and_a_project_without_metadata_are_passed_over(project: Path) -> None:
    (project / "boats" / "harbour.py").write_text("def (:\n" + "(" * 5000)
    assert messages(project) == []
    (project / "pyproject.toml").write_text("[tool.ruff]\n")
    assert messages(project) == []
    (project / "pyproject.toml").unlink()
    assert messages(project) == []


def steersman(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-m", "steersman", *words],
        cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_build_fails_before_the_image_is_built_unless_told_otherwise(project: Path) -> None:
    words = ("build", "--tool", "podman", "--dry-run")
    assert steersman(project, *words).returncode == 0
    (project / "boats" / "harbour.py").write_text("import hypothesis\n")
    done = steersman(project, *words)
    assert done.returncode == 1
    assert "error: boats/harbour.py:1: the module hypothesis belongs to hypothesis" in done.stderr
    assert "--no-check-imports" in done.stderr
    assert steersman(project, *words, "--no-check-imports").returncode == 0
    (project / "boats" / "harbour.py").write_text("import nowhere_at_all\n")
    done = steersman(project, *words)
    assert done.returncode == 0
    assert "warning: boats/harbour.py:1: the module nowhere_at_all" in done.stderr


@pytest.mark.slow
def test_doctor_finds_them_where_no_cluster_is(project: Path) -> None:
    (project / "boats" / "harbour.py").write_text("import hypothesis\n")
    done = steersman(project, "doctor", "boats:operator", "--kubeconfig", "nowhere", "--output", "json")
    found = [one for one in json.loads(done.stdout) if one["check"] == "imports"]
    assert [one["level"] for one in found] == ["fail"]
    assert found[0]["text"].startswith("boats/harbour.py:1: the module hypothesis")
    (project / "boats" / "harbour.py").write_text("")
    done = steersman(project, "doctor", "boats:operator", "--kubeconfig", "nowhere", "--output", "json")
    assert [one["level"] for one in json.loads(done.stdout) if one["check"] == "imports"] == ["ok"]
