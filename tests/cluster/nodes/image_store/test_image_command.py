"""The command `steersman-cluster image`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steersman_cluster.cli.commands import app
from tests.cluster.nodes.image_store.archives import docker_archive, entry, layer

NAME = "example.com/app:1.0"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_images_are_imported_listed_and_removed(tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))], NAME)
    runner = CliRunner()
    assert runner.invoke(app, ["image", "import", str(archive)]).output == f"imported {NAME}\n"
    assert NAME in runner.invoke(app, ["image", "list"]).output
    listed = json.loads(runner.invoke(app, ["image", "list", "-o", "json"]).output)
    assert [image["name"] for image in listed] == [NAME]
    assert runner.invoke(app, ["image", "remove", NAME]).output == f"removed {NAME}\n"
    assert json.loads(runner.invoke(app, ["image", "list", "-o", "json"]).output) == []


def test_standard_input_is_imported(tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))], NAME)
    result = CliRunner().invoke(app, ["image", "import", "-"], input=archive.read_bytes())
    assert result.output == f"imported {NAME}\n"
