"""Histories of writes on real servers with a full disk, and with several operators."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from tests.history import History, Loop, Outcome, Writers, policy, problems, read_all, running
from tests.members import Members, members_of
from tests.volumes import Volume, limited_volumes

pytestmark = pytest.mark.slow

MARIADB, MYSQL = "mariadb-10.11", "mysql-9.7"
ENGINES = [MARIADB, pytest.param(MYSQL, marks=pytest.mark.soak)]
VOLUME_MEBIBYTES = 1500
FULL_SECONDS = 8.0
HEAL_SECONDS = 200.0
"""A server waits up to a minute before it tries again to write to a volume that was full."""
NAMES = ["m-0", "m-1", "m-2"]


@pytest.fixture
def three(server: str, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=server) as members:
        yield members


async def until(holds: Callable[[], object], what: str, seconds: float = 90.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - real processes have no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(what) from None


async def acknowledged(writers: Writers, more: int = 20) -> None:
    """Wait until more writes are acknowledged."""
    wanted = len(writers.history.numbers(Outcome.OK)) + more
    await until(lambda: len(writers.history.numbers(Outcome.OK)) >= wanted, "no write is acknowledged")


@contextlib.asynccontextmanager
async def written(members: Members) -> AsyncGenerator[tuple[Loop, Writers]]:
    """Run the operator and four writers, from the time at which writes are acknowledged."""
    async with running(members, policy(members)) as loop:
        writers = Writers(loop, 4)
        await acknowledged(writers)
        yield loop, writers


async def check(loop: Loop, writers: Writers, heal_seconds: float = 90.0) -> History:
    """Let the cluster heal, and check what every member has."""
    history = await writers.stop()
    await loop.heal(heal_seconds)
    names = loop.policy.members
    assert problems(history, await read_all(loop.members, names)) == []
    assert history.numbers(Outcome.OK)
    return history


# A full disk.


@pytest.fixture
def on_volumes(server: str, tmp_path: Path) -> Iterator[tuple[Members, dict[str, Volume]]]:
    directory = tmp_path / "members"
    with (
        limited_volumes(directory, NAMES, VOLUME_MEBIBYTES) as volumes,
        members_of(directory, 3, server=server) as members,
    ):
        yield members, volumes


@pytest.mark.parametrize("server", ENGINES)
async def test_writes_stall_while_the_disk_of_the_primary_is_full_and_none_is_lost(on_volumes):
    members, volumes = on_volumes
    async with written(members) as (loop, writers):
        victim = loop.stored.primary
        volumes[victim].fill()
        await asyncio.sleep(FULL_SECONDS)
        volumes[victim].clear()
        await acknowledged(writers, 1)
        await check(loop, writers, HEAL_SECONDS)


@pytest.mark.parametrize("server", ENGINES)
async def test_writes_go_on_while_the_disk_of_a_replica_is_full(on_volumes):
    members, volumes = on_volumes
    async with written(members) as (loop, writers):
        victim = next(name for name in NAMES if name != loop.stored.primary)
        volumes[victim].fill()
        await asyncio.sleep(FULL_SECONDS / 2)
        await acknowledged(writers)
        volumes[victim].clear()
        await check(loop, writers, HEAL_SECONDS)


@pytest.mark.parametrize("server", ENGINES)
async def test_a_member_with_a_full_disk_stores_no_epoch_and_is_not_counted(on_volumes):
    """The volume of a replica is full when the primary is lost: writes wait for space, and none is lost."""
    members, volumes = on_volumes
    async with written(members) as (loop, writers):
        lost = loop.stored.primary
        victim = next(name for name in NAMES if name != lost)
        volumes[victim].fill()
        await asyncio.sleep(1.0)
        members.kill(lost)
        await asyncio.sleep(FULL_SECONDS / 2)
        volumes[victim].clear()
        await until(lambda: loop.stored.primary != lost, "no failover after space was free", HEAL_SECONDS)
        members.start(lost)
        await check(loop, writers, HEAL_SECONDS)


# Several operators.


@pytest.mark.parametrize("server", ENGINES)
async def test_a_paused_operator_that_resumes_after_a_failover_changes_nothing(three: Members):
    """Its decision has the former epoch: the agents refuse its actions, and the API server its state."""
    async with written(three) as (loop, writers):
        lost = loop.stored.primary
        loop.running.clear()
        other = loop.another()
        other.start()
        three.kill(lost)
        await until(lambda: loop.stored.primary != lost and loop.stored.transition is None, "no failover")
        three.start(lost)
        await acknowledged(writers)
        epoch, primary = loop.stored.epoch, loop.stored.primary
        loop.running.set()
        await asyncio.sleep(1.0)
        assert (loop.stored.primary, loop.stored.epoch >= epoch) == (primary, True)
        await other.kill()
        await check(loop, writers)


@pytest.mark.parametrize("server", ENGINES)
async def test_two_operators_without_an_election_fail_over_once(three: Members):
    async with written(three) as (loop, writers):
        other = loop.another()
        other.start()
        lost = loop.stored.primary
        three.kill(lost)
        await until(lambda: loop.stored.primary != lost and loop.stored.transition is None, "no failover")
        three.start(lost)
        await acknowledged(writers)
        await loop.heal()
        completed = (loop.notices + other.notices).count("FailoverCompleted")
        await other.kill()
        await check(loop, writers)
    assert completed == 1
