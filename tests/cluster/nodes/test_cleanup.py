"""The cleanup program of a node: it runs as long as the node, and acts when the node ends."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steersman_cluster.nodes.process.cleanup import MARK
from steersman_cluster.nodes.process.cleanup_guard import CleanupGuard

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


@pytest.fixture
async def guard(tmp_path: Path) -> AsyncIterator[CleanupGuard]:
    group = tmp_path / "group"
    (group / "container").mkdir(parents=True)
    directory = tmp_path / "data"
    (directory / "volumes").mkdir(parents=True)
    made = CleanupGuard(tmp_path.name, [str(group)], directory)
    await made.start()
    yield made
    await made.close()


def content(directory: Path) -> list[str]:
    return os.listdir(directory)


def marked_process(mark: str) -> subprocess.Popen[bytes]:
    """Return a process with the mark of a node."""
    made = subprocess.Popen(SLEEP, env={MARK: mark}, stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    return made


async def test_a_killed_cleanup_program_is_started_again(guard: CleanupGuard, tmp_path: Path) -> None:
    first = guard.process
    assert first is not None
    first.kill()
    await asyncio.wait_for(guard.restarted.wait(), 30)
    assert guard.process is not first
    await guard.close()
    assert not (tmp_path / "group").exists()


async def test_the_end_of_a_node_cleans_up_although_its_program_was_killed(guard: CleanupGuard, tmp_path: Path) -> None:
    with marked_process(tmp_path.name) as left:
        assert guard.process is not None
        guard.process.kill()
        await guard.close()
        assert left.wait(30) == -9
    assert content(tmp_path) == []


async def test_the_end_of_a_node_deletes_its_temporary_directory(guard: CleanupGuard, tmp_path: Path) -> None:
    await guard.close()
    assert content(tmp_path) == []
