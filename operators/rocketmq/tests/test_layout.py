"""The commands in the README make the layout of this project."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[1]
REPLACED_TESTS = re.compile(r"tests/(e2e/)?test_\w+_controller\.py")
"""Tests that other files of this project replace."""


PUBLISHED = "create api --group rocketmq --version v1 --kind Broker"
"""A command of the published walk-through, after the name of its tool; its domain is daocloud.io."""


def commands() -> list[list[str]]:
    """Return the words of each command of the README."""
    readme = (PROJECT / "README.md").read_text()
    block = readme.partition("<!-- layout: begin -->")[2].partition("<!-- layout: end -->")[0]
    text = block.strip().removeprefix("```console").removesuffix("```").replace("\\\n", " ")
    return [shlex.split(line.removeprefix("$ ")) for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def scaffold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the result of the commands."""
    return made_by(commands(), tmp_path_factory.mktemp("scaffold"))


def made_by(lines: list[list[str]], directory: Path) -> Path:
    """Run commands in a directory, and return it."""
    for words in lines:
        assert words[0] == "steersman"
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    return directory


def files(directory: Path) -> dict[str, bytes]:
    """Return the content of all files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_published_command_is_one_of_the_commands_word_for_word():
    assert ["steersman", *PUBLISHED.split()] in commands()
    assert commands()[0][:4] == ["steersman", "init", "--domain", "daocloud.io"]


def test_the_flags_of_operator_sdk_make_the_same_files(scaffold: Path, tmp_path: Path):
    more = {"init": ["--repo", "github.com/example/rocketmq"], "api": ["--resource", "--controller"]}
    lines = [[*words, *more.get(words[1], more.get(words[2], []))] for words in commands()]
    assert files(made_by(lines, tmp_path)) == files(scaffold)


def test_the_state_of_the_project_is_that_of_the_commands(scaffold: Path):
    assert (scaffold / "PROJECT").read_text() == (PROJECT / "PROJECT").read_text()


def test_every_file_of_the_commands_is_in_this_project(scaffold: Path):
    made = {str(path.relative_to(scaffold)) for path in scaffold.rglob("*") if path.is_file()}
    missing = {path for path in made if not (PROJECT / path).is_file() and "__pycache__" not in path}
    assert {path for path in missing if not REPLACED_TESTS.fullmatch(path)} == set()


def test_each_kind_has_the_module_and_the_classes_of_the_commands(scaffold: Path):
    for resource in yaml.safe_load((PROJECT / "PROJECT").read_text())["resources"]:
        path = resource["path"].replace(".", "/") + ".py"
        declared = re.compile(rf"^class ({resource['kind']}(?:Spec|Status)?)\(", re.MULTILINE)
        assert set(declared.findall((scaffold / path).read_text())) == set(
            declared.findall((PROJECT / path).read_text())
        )
        group = re.compile(r'^    group="([^"]+)",$', re.MULTILINE)
        assert group.findall((PROJECT / path).read_text()) == ["rocketmq.daocloud.io"]
