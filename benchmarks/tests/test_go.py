"""The programs in Go, the server that every peer talks to above all, have tests of their own: they are run here."""

from __future__ import annotations

import subprocess

import pytest

from benchmarks.toolchains import HERE, NotMeasuredError, go


@pytest.mark.slow
@pytest.mark.parametrize("module", ["server", "peers/go"])
@pytest.mark.parametrize("command", [["vet"], ["test", "-count=1"]], ids=["vet", "test"])
def test_the_programs_in_go_pass_their_own_checks(module, command):
    try:
        tool = go()
    except NotMeasuredError as problem:
        pytest.skip(str(problem))
    done = subprocess.run([tool, *command, "./..."], cwd=HERE / module, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
