"""Histories of writes on three real servers under faults, with the state machine as the operator."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.actions import Fence
from tests.history import (
    Attempt,
    History,
    Loop,
    Outcome,
    Term,
    Writers,
    overlaps,
    policy,
    problems,
    read_all,
    run_seed,
    running,
    wait_until,
)
from tests.members import Members, members_of

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("HISTORY_RUNS", "2"))

MARIADB, MYSQL = "mariadb-10.11", "mysql-9.7"


@pytest.fixture
def three(server: str, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=server) as members:
        yield members


@pytest.mark.parametrize("server", [MARIADB, pytest.param(MYSQL, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", range(RUNS))
async def test_no_acknowledged_write_is_lost(three: Members, seed: int):
    result = await run_seed(three, seed)
    assert (result.problems, result.unhealed) == ([], ""), result.faults
    assert result.acknowledged, result.faults


@pytest.mark.parametrize("server", [MARIADB, MYSQL])
async def test_writes_go_on_after_the_primary_is_killed(three: Members):
    async with running(three, policy(three)) as loop:
        writers = Writers(loop, 4)
        old = loop.stored.primary
        killed = time.monotonic()
        three.kill(old)
        await wait_until(
            lambda: any(a.outcome is Outcome.OK and a.member != old for a in writers.history.attempts),
            "no write is acknowledged by another primary",
        )
        assert loop.stored.primary != old
        three.start(old)
        history = await writers.stop()
        await loop.heal()
        print(f"first acknowledged write {history.gap_after(killed + 0.2):.2f} s after the primary was killed")
        assert problems(history, await read_all(three, three.names)) == []
    assert "FailoverStarted" in loop.notices


@pytest.mark.parametrize("server", [MARIADB, MYSQL])
async def test_the_checker_finds_the_losses_of_asynchronous_replication(three: Members):
    """Without acknowledgements a forced failover loses writes; so the checker can detect losses."""
    asynchronous = policy(three, ack_count=0, force=True)
    async with running(three, asynchronous) as loop:
        old = loop.stored.primary
        replicas = [name for name in three.names if name != old]
        await loop.kill()
        for name in replicas:
            await loop.client.act(Fence(member=name, epoch=loop.stored.epoch))
        writers = Writers(loop, 1)
        await writers.wait_acknowledged(10)
        three.kill(old)
        loop.start()
        await wait_until(lambda: loop.stored.primary != old and loop.stored.transition is None, "no failover")
        history = await writers.stop()
        found = problems(history, await read_all(three, [loop.stored.primary]))
        assert "acknowledged writes" in found[0]

        three.start(old)
        await wait_until(lambda: loop.stored.is_errant(old), "the errant transactions are not found")


async def replaced_without_an_operator(loop: Loop, writers: Writers) -> str:
    """Pause the primary until another is promoted, end the operator, and resume the former primary; return its name."""
    old = loop.stored.primary
    await writers.wait_acknowledged()
    loop.members.pause(old)
    await wait_until(lambda: loop.stored.primary != old and loop.stored.transition is None, "no failover")
    await loop.kill()
    loop.members.resume(old)
    return old


@pytest.mark.parametrize("server", [MARIADB, pytest.param(MYSQL, marks=pytest.mark.soak)])
async def test_a_former_primary_that_resumes_acknowledges_nothing_while_no_operator_runs(three: Members):
    async with running(three, policy(three)) as loop:
        writers = Writers(loop, 2, kept_seconds=math.inf)
        old = await replaced_without_an_operator(loop, writers)
        resumed = time.monotonic()
        await wait_until(
            lambda: any(each.member == old and each.began > resumed for each in writers.history.attempts),
            "no write is sent to the former primary",
        )
        loop.start()
        await loop.heal(writing=True)
        history = await writers.stop()
        await loop.until_healthy()
        assert problems(history, await read_all(three, three.names)) == []
        assert overlaps(history, loop.cluster.terms) == []


@pytest.mark.parametrize("server", [MARIADB])
async def test_the_checker_finds_a_second_primary_of_asynchronous_replication(three: Members):
    async with running(three, policy(three, ack_count=0, force=True)) as loop:
        writers = Writers(loop, 2, kept_seconds=math.inf)
        old = await replaced_without_an_operator(loop, writers)
        await wait_until(
            lambda: overlaps(writers.history, loop.cluster.terms), "no write of the former primary is found"
        )
        history = await writers.stop()
        assert old in overlaps(history, loop.cluster.terms)[0]


def attempt(number: int, outcome: Outcome) -> Attempt:
    return Attempt(number, "m-0", outcome, 0.0)


def test_the_checker_finds_losses_phantoms_and_differences():
    history = History([attempt(1, Outcome.OK), attempt(2, Outcome.FAILED), attempt(3, Outcome.UNKNOWN)])
    assert problems(history, {"m-0": {1}, "m-1": {1}}) == []
    assert problems(history, {"m-0": {1, 3}, "m-1": {1, 3}}) == []
    assert "lost 1 acknowledged" in problems(history, {"m-0": set()})[0]
    assert "failed or never were" in problems(history, {"m-0": {1, 2}})[0]
    assert "differ" in problems(history, {"m-0": {1}, "m-1": {1, 3}})[0]


def test_the_checker_finds_a_former_primary_that_acknowledges():
    terms = [Term("m-0", 1.0), Term("m-1", 5.0), Term("m-0", 9.0)]

    def found(member: str, began: float, answered: float, outcome: Outcome = Outcome.OK) -> list[str]:
        return overlaps(History([Attempt(7, member, outcome, answered, began)]), terms)

    assert found("m-0", 4.0, 6.0) == []  # the response was late
    assert found("m-1", 6.0, 7.0) == []
    assert found("m-0", 9.5, 9.6) == []
    assert found("m-0", 6.0, 7.0, Outcome.UNKNOWN) == []
    assert found("m-0", 6.0, 7.0) == ["m-0 acknowledged write 7 while another member was the primary"]
    assert found("m-1", 2.0, 3.0) != []
    assert found("m-2", 2.0, 3.0) != []
