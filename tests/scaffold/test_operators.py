"""The operators of this repository are whole projects: `steersman init` lays them out, and every command works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.scaffold.project import Project, parse
from steersman.scaffold.render import render

ROOT = Path(__file__).parents[2]
OPERATORS = sorted(path.parent for path in ROOT.glob("operators/*/pyproject.toml"))
TEMPLATES_AS_THEY_ARE = ("Dockerfile", ".dockerignore", ".gitignore")
every_operator = pytest.mark.parametrize("directory", OPERATORS, ids=lambda path: path.name)


def project_of(directory: Path) -> Project:
    return parse((directory / "PROJECT").read_text())


def steersman(directory: Path, *words: str) -> str:
    line = [sys.executable, "-m", "steersman", *words]
    done = subprocess.run(line, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))


def test_there_are_operators_to_look_at() -> None:
    assert {"configmonitor", "helloapp", "sidecarset"} <= {path.name for path in OPERATORS}


@every_operator
def test_an_operator_has_what_a_project_has(directory: Path) -> None:
    generated = render(project_of(directory))
    for path in TEMPLATES_AS_THEY_ARE:
        assert (directory / path).read_text() == generated[path], f"{path}: run `steersman update`"
    assert targets(generated["Makefile"]) <= targets((directory / "Makefile").read_text())
    for path in ("requirements.lock", "README.md", "config/samples", "config/default", "tests", "pyproject.toml"):
        assert (directory / path).exists(), path
    assert "```mermaid" in (directory / "README.md").read_text(), "a picture of what it does"
    package = project_of(directory).package
    generated_modules = [path for path in generated if path.startswith(f"{package}/")]
    assert [path for path in generated_modules if not (directory / path).exists()] == []


@pytest.mark.slow
@every_operator
def test_the_commands_of_a_project_work_in_an_operators_directory(directory: Path, tmp_path: Path) -> None:
    """None of them needs to be told which operator is meant: PROJECT says it."""
    name = project_of(directory).name
    assert "up to date" in steersman(directory, "manifests", "--check")
    assert f"docker.io/library/{name}:" in steersman(directory, "build", "--tool", "buildah", "--dry-run")
    steersman(directory, "bundle", "make", "--provider", "Steersman", "--output-dir", str(tmp_path / "bundle"))
    assert (tmp_path / "bundle" / "metadata" / "annotations.yaml").is_file()


@pytest.mark.slow
@every_operator
def test_an_operator_follows_its_templates(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / directory.name
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("__pycache__", ".venv", ".hypothesis", "dist"))
    *left, last = steersman(copy, "update", "--force").splitlines()
    assert last == "nothing to do"
    assert [line for line in left if "left tests/" not in line] == []
