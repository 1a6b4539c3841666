"""The operators of this repository are whole projects: `steersman init` lays them out, and every command works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


PACKAGED = [path for path in OPERATORS if {"bundle", "chart"} <= targets((path / "Makefile").read_text())]
every_packaged_operator = pytest.mark.parametrize("directory", PACKAGED, ids=lambda path: path.name)


def make(directory: Path, *words: str) -> None:
    """Run a target of the Makefile with the current interpreter."""
    tool = shutil.which("make")
    if tool is None:
        pytest.skip("make is not installed")
    command = [tool, "-s", f"PYTHON={sys.executable}", *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kinds_of(directory: Path) -> set[str]:
    return {resource.kind for resource in project_of(directory).resources if resource.api}


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


def test_there_are_operators_with_packages() -> None:
    assert {"mysqlcluster", "rocketmq"} <= {path.name for path in PACKAGED}


@every_packaged_operator
def test_the_bundle_for_olm_is_valid_and_owns_every_kind(directory: Path, tmp_path: Path) -> None:
    make(directory, "bundle", f"BUNDLE={tmp_path}")
    steersman(directory, "bundle", "validate", str(tmp_path))
    name = project_of(directory).name
    csv = yaml.safe_load((tmp_path / f"manifests/{name}.clusterserviceversion.yaml").read_text())
    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    assert {each["kind"] for each in owned} == kinds_of(directory)


@every_packaged_operator
def test_the_chart_has_the_metadata_of_artifacthub(directory: Path, tmp_path: Path) -> None:
    make(directory, "chart", f"CHART={tmp_path}")
    chart = yaml.safe_load((tmp_path / "Chart.yaml").read_text())
    kinds = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    assert {each["kind"] for each in kinds} == kinds_of(directory)
    assert chart["annotations"]["artifacthub.io/operator"] == "true"


@every_packaged_operator
def test_one_manifest_installs_everything(directory: Path, tmp_path: Path) -> None:
    make(directory, "build-installer", f"INSTALLER={tmp_path / 'install.yaml'}")
    objects = list(yaml.safe_load_all((tmp_path / "install.yaml").read_text()))
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert {each["spec"]["names"]["kind"] for each in definitions} == kinds_of(directory)
    assert [each["kind"] for each in objects].count("Deployment") == 1
