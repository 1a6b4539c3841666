"""`steersman-cluster fault`, as a user types it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .web import until

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path, images: Path) -> Iterator[Command]:
    """Runs the command with a state directory of its own, in which a cluster with one Pod runs."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "200", "TERM": "dumb"}

    def run(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "steersman_cluster", *words],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    started = run("start", "--detach", "--node-kind", "process", "--network", "namespaces", "--images", str(images))
    assert started.returncode == 0, started.stderr
    try:
        body = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: web}]}}"
        assert run("load", "-", text=body).returncode == 0
        until(lambda: run("fault", "pause", "web").returncode, lambda code: code == 0)
        assert run("fault", "heal").stdout == "healed\n"
        yield run
    finally:
        run("stop")


@pytest.mark.slow
def test_faults_begin_are_listed_and_end(command: Command) -> None:
    assert command("fault", "partition", "web", "--from", "apiserver", "--one-way").returncode == 0
    assert command("fault", "delay", "web", "--seconds", "0.5").returncode == 0
    lines = command("fault", "list").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == [
        "partition default/web to apiserver",
        "delay default/web from * seconds=0.5 jitterSeconds=0",
    ]
    assert command("fault", "heal", lines[0].split("\t")[0]).returncode == 0
    assert len(command("fault", "list").stdout.splitlines()) == 1
    assert command("fault", "heal").returncode == 0
    assert command("fault", "list").stdout == "no faults\n"
    refused = command("fault", "kill", "nothing")
    assert refused.returncode == 1
    assert "default/nothing: there is no such Pod on a process node" in refused.stderr
