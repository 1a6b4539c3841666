"""`steersman bundle` and `build`, as a user meets them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.cli.dispatch import run
from steersman.cli.operator_loader import LoadError
from steersman.cli.packaging.build import Tool, commands

APP = (Path(__file__).parents[1] / "manifests/shipped_app.py").read_text()
PROJECT = (
    '[project]\nname = "widgets"\nversion = "1.2.3"\nauthors = [{name = "Widget makers", email = "w@example.com"}]\n'
)
Command = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shipped.py").write_text(APP)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.delitem(sys.modules, "shipped", raising=False)

    def call(*words: str) -> tuple[Any, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return ended.value.code or 0, out, err

    yield call
    sys.modules.pop("shipped", None)


@pytest.mark.slow
def test_a_bundle_is_made_checked_and_up_to_date(command: Command) -> None:
    code, out, err = command("bundle", "shipped:operator", "--catalog", "catalog")
    assert code == 0, err
    assert "bundle is a valid bundle" in out
    assert "csv.Spec.Icon not specified" in err
    assert command("bundle", "make", "shipped:operator", "--catalog", "catalog", "--check")[0] == 0
    assert command("bundle", "shipped:operator", "--channels", "beta", "--check")[0] == 1
    assert command("bundle", "validate")[0] == 0
    assert command("bundle", "validate", "--strict")[0] == 1
    assert [one["level"] for one in json.loads(command("bundle", "validate", "--output", "json")[1])] == ["Warning"]
    assert "name: widgets.v1.2.3" in Path("bundle/manifests/widgets.clusterserviceversion.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bundle", "validate", "nowhere"), "nowhere: not a bundle"),
        (("bundle", "shipped:operator", "--channels", ","), "--channels: name at least one"),
        (("bundle", "shipped:operator", "--default-channel", "x"), "not among the channels"),
        (("bundle", "shipped:operator", "--related-image", "x"), "write NAME=IMAGE"),
        (("bundle", "shipped:operator", "--icon", "x.bmp"), "SVG, PNG, JPEG or GIF"),
        (("bundle", "nothing:operator"), "there is no module 'nothing'"),
        (("build",), "the file does not exist"),
    ],
)
def test_what_is_asked_for_wrongly_is_said(words: tuple[str, ...], said: str, command: Command) -> None:
    code, _, err = command(*words)
    assert code in (1, 2)
    assert said in err


def test_nobody_publishes_a_bundle_without_a_name(command: Command) -> None:
    Path("pyproject.toml").unlink()
    assert "--provider" in command("bundle", "shipped:operator")[2]
    assert command("bundle", "shipped:operator", "--provider", "Me")[0] == 0


@pytest.mark.parametrize("tool", ["docker", "podman", "buildah"])
def test_command_lines_are_those_of_each_tool(tool: Tool) -> None:
    where = (Path("Dockerfile"), Path())
    cached = ["--layers"] if tool == "buildah" else []  # the others keep layers by themselves
    assert commands(tool, "r.io/x:1", *where, push=True) == [
        [tool, "build", *cached, "--file", "Dockerfile", "--tag", "r.io/x:1", "."],
        [tool, "push", "r.io/x:1"],
    ]
    both = ("linux/amd64", "linux/arm64")
    made = commands(tool, "r.io/x:1", *where, platforms=both, arguments=("A=b",), push=True)
    if tool == "docker":
        words = ["docker", "buildx", "build", "--file", "Dockerfile", "--tag", "r.io/x:1"]
        words += ["--platform", "linux/amd64,linux/arm64", "--build-arg", "A=b", "--push", "."]
        assert made == [words]
    else:
        assert "--manifest" in made[0]
        assert made[1] == [tool, "manifest", "push", "--all", "r.io/x:1", "docker://r.io/x:1"]


@pytest.mark.parametrize(
    ("name", "resolved"),
    [
        ("widgets:1.2.3", "docker.io/library/widgets:1.2.3"),
        ("widgets", "docker.io/library/widgets:latest"),
        ("team/widgets:1", "docker.io/team/widgets:1"),
        ("localhost/widgets:1", "localhost/widgets:1"),
        ("localhost:5000/widgets", "localhost:5000/widgets:latest"),
        ("r.example.com/team/widgets:1", "r.example.com/team/widgets:1"),
        ("docker.io/widgets:1", "docker.io/library/widgets:1"),
        ("index.docker.io/widgets:1", "docker.io/library/widgets:1"),
    ],
)
def test_an_image_has_the_name_by_which_containerd_resolves_that_of_the_deployment(name: str, resolved: str) -> None:
    """podman and buildah would store `widgets:1` as `localhost/widgets:1`, which no kubelet looks for."""
    for tool in ("podman", "buildah"):
        (line,) = commands(tool, name, Path("Dockerfile"), Path())
        assert line[line.index("--tag") + 1] == resolved


def test_a_digest_is_no_name_to_build_under() -> None:
    with pytest.raises(LoadError, match="a digest follows from the content"):
        commands("buildah", "r.io/x@sha256:" + "a" * 64, Path("Dockerfile"), Path())


def tools(directory: Path, **exits: int) -> str:
    """A `PATH` with programs of these names that say they are usable (0) or not."""
    directory.mkdir()
    for name, code in exits.items():
        program = directory / name
        program.write_text(f"#!/bin/sh\necho {name} cannot connect to its daemon >&2\nexit {code}\n")
        program.chmod(0o755)
    return str(directory)


@pytest.mark.parametrize(
    ("exits", "chosen"),
    [
        ({"docker": 0, "podman": 0, "buildah": 0}, "docker"),
        ({"docker": 1, "podman": 0, "buildah": 0}, "podman"),
        ({"docker": 1, "podman": 125, "buildah": 0}, "buildah"),
        ({"buildah": 0}, "buildah"),
    ],
)
def test_the_tool_that_can_build_is_chosen(
    exits: dict[str, int], chosen: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A docker client without a daemon is installed on many machines, and builds nothing."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", tools(tmp_path / "bin", **exits))
    assert json.loads(command("build", "--dry-run", "--output", "json")[1])["tool"] == chosen


def test_tools_that_cannot_build_are_reported_with_their_reasons(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", tools(tmp_path / "bin", docker=1))
    code, _, err = command("build", "--dry-run")
    assert code == 1
    said = " ".join(err.split())
    assert "docker: docker cannot connect to its daemon" in said
    assert "podman: not installed" in said
    assert "buildah: not installed" in said


def test_an_image_that_was_built_is_pushed_alone(command: Command, tmp_path: Path) -> None:
    """Two commands, as `make docker-build docker-push IMG=...` runs them."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    pushed = command("build", "--tool", "docker", "--image", "r/x:1", "--push-only", "--dry-run")
    assert pushed[:2] == (0, "docker push docker.io/r/x:1\n")
    several = ("--platform", "linux/amd64", "--platform", "linux/arm64")
    assert command("build", "--tool", "podman", *several, "--image", "r/x:1", "--push-only", "--dry-run")[:2] == (
        0,
        "podman manifest push --all docker.io/r/x:1 docker://docker.io/r/x:1\n",
    )
    code, _, err = command("build", "--tool", "docker", *several, "--push-only", "--dry-run")
    assert code == 2
    assert "use --push" in err


def test_build_shows_its_command_line_and_fails_with_its_tool(command: Command, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    line = "podman build --file Dockerfile --tag docker.io/library/widgets:1.2.3 .\n"
    assert command("build", "--tool", "podman", "--dry-run")[:2] == (0, line)
    told = json.loads(command("build", "--tool", "buildah", "--dry-run", "--output", "json")[1])
    assert told["image"] == "docker.io/library/widgets:1.2.3"


def test_build_runs_the_tool_and_hands_on_its_failure(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    fake = tmp_path / "bin" / "buildah"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "$@" > said\n[ "$1" = build ]\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert command("build", "--tool", "buildah")[0] == 0
    assert (
        tmp_path / "said"
    ).read_text() == "build --layers --file Dockerfile --tag docker.io/library/widgets:1.2.3 .\n"
    code, _, err = command("build", "--tool", "buildah", "--push")
    assert code == 1
    assert "buildah failed with exit code 1" in err


def test_buildah_builds_an_image(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed: apt-get install buildah")
    monkeypatch.setenv("STORAGE_DRIVER", "vfs")
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{tmp_path}/run"\ngraphroot = "{tmp_path}/graph"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    probe = subprocess.run(["buildah", "images"], capture_output=True, text=True, timeout=30, check=False)
    if probe.returncode:
        pytest.skip(f"buildah cannot run here: {probe.stderr.strip()}")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY pyproject.toml /\n")
    code, _, err = command("build", "--tool", "buildah", "--image", "localhost/tiny:1")
    assert code == 0, err
    words = ["buildah", "images", "--format", "{{.Name}}:{{.Tag}}"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert made.stdout.split() == ["localhost/tiny:1"]
