"""Histories of writes on three real MySQL servers under faults, with the state machine as the operator."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.machine import Policy
from tests.history import Faults, Outcome, Writers, problems, read_all, running
from tests.members import Members, members_of

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("HISTORY_RUNS", "2"))
FAULTS = 3


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server="mysql-9.7") as members:
        yield members


def policy(members: Members) -> Policy:
    return Policy(tuple(members.names), detection_seconds=1.0, min_interval_seconds=0.0, max_ack_count=8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(RUNS))
async def test_no_acknowledged_write_is_lost(three: Members, seed: int):
    async with running(three, policy(three)) as loop:
        writers = Writers(loop, 4)
        faults = Faults(loop, seed)
        for _ in range(FAULTS):
            await faults.inject()
        history = await writers.stop()
        await loop.heal()
        final = await read_all(three, three.names)
    assert history.numbers(Outcome.OK), faults.done
    assert problems(history, final) == [], faults.done


async def test_writes_go_on_after_the_primary_is_killed(three: Members):
    async with running(three, policy(three)) as loop:
        writers = Writers(loop, 4)
        old = loop.stored.primary
        three.kill(old)
        async with asyncio.timeout(60):
            while loop.stored.primary == old or not any(  # noqa: ASYNC110 - real processes have no event
                a.outcome is Outcome.OK and a.member != old for a in writers.history.attempts
            ):
                await asyncio.sleep(0.02)
        three.start(old)
        history = await writers.stop()
        await loop.heal()
        assert problems(history, await read_all(three, three.names)) == []
    assert "FailoverStarted" in loop.notices
