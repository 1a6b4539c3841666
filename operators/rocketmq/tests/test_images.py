"""The start scripts of the servers' images, with a `java` that prints its arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

BIN = Path(__file__).parents[1] / "images" / "bin"


def options(tmp_path: Path, script: str, **env: str) -> list[str]:
    """Return the arguments that a start script passes to Java."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    java.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", **env}
    done = subprocess.run(
        ["sh", script, "-c", "file.conf"],
        cwd=BIN,
        env=variables,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", ["mqnamesrv", "mqbroker", "mqcontroller"])
def test_a_server_generates_no_keys_for_tls_at_its_start(tmp_path: Path, script: str):
    assert "-Dtls.server.mode=disabled" in options(tmp_path, script)


def test_java_opt_turns_tls_on(tmp_path: Path):
    found = options(tmp_path, "mqbroker", JAVA_OPT="-Dtls.server.mode=enforcing")
    assert [each for each in found if each.startswith("-Dtls.server.mode=")][-1] == "-Dtls.server.mode=enforcing"
    assert found[-2:] == ["-c", "file.conf"]
