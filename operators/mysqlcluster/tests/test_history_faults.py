"""Histories of writes on real servers with a full disk, several operators, and changes of the size under faults."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.history import Faults, Loop, Outcome, Writers, overlaps, policy, problems, read_all, running, wait_until
from tests.members import Members, members_of, until
from tests.volumes import Volume, limited_volumes

pytestmark = pytest.mark.slow

MARIADB, MYSQL = "mariadb-10.11", "mysql-9.7"
ENGINES = [MARIADB, pytest.param(MYSQL, marks=pytest.mark.soak)]
VOLUME_MEBIBYTES = 500
FULL_SECONDS = 8.0
NAMES = ["m-0", "m-1", "m-2"]
SIZE_SEED = 0


@pytest.fixture
def three(server: str, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=server) as members:
        yield members


@contextlib.asynccontextmanager
async def written(members: Members) -> AsyncGenerator[tuple[Loop, Writers]]:
    """Run the operator and four writers, from the time at which writes are acknowledged."""
    async with running(members, policy(members)) as loop:
        writers = Writers(loop, 4)
        await writers.wait_acknowledged()
        yield loop, writers


async def check(loop: Loop, writers: Writers) -> None:
    """Let the cluster heal, and check what every member has."""
    history = await writers.stop()
    await loop.heal()
    assert problems(history, await read_all(loop.members, loop.policy.members)) == []
    assert overlaps(history, loop.cluster.terms) == []
    assert history.numbers(Outcome.OK)


def moved_from(loop: Loop, member: str) -> bool:
    """Return whether a failover from a member is complete."""
    return loop.stored.primary != member and loop.stored.transition is None


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
        await writers.wait_acknowledged(1)
        await check(loop, writers)


@pytest.mark.soak
@pytest.mark.parametrize("server", ENGINES)
async def test_writes_go_on_while_the_disk_of_a_replica_is_full(on_volumes):
    members, volumes = on_volumes
    async with written(members) as (loop, writers):
        victim = next(name for name in NAMES if name != loop.stored.primary)
        volumes[victim].fill()
        await asyncio.sleep(FULL_SECONDS / 2)
        await writers.wait_acknowledged()
        volumes[victim].clear()
        await check(loop, writers)


@pytest.mark.parametrize("server", ENGINES)
async def test_a_replica_with_a_full_disk_stores_the_epoch_of_a_failover(on_volumes):
    """It gets the reserved space, is fenced, and the failover completes; writes go on when another replica is back."""
    members, volumes = on_volumes
    async with written(members) as (loop, writers):
        lost = loop.stored.primary
        victim = next(name for name in NAMES if name != lost)
        volumes[victim].fill()
        await writers.wait_acknowledged(100)  # the other replica has more transactions, and is chosen
        members.kill(lost)
        await wait_until(lambda: loop.stored.primary != lost, "no failover while the disk of a replica is full")
        await until(loop.client, victim, lambda state: state.epoch == loop.stored.epoch)
        loop.policy = replace(loop.policy, reclone=True)  # the lost primary may have transactions of its own
        members.start(lost)
        await writers.wait_acknowledged()
        volumes[victim].clear()
        await check(loop, writers)


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
        await wait_until(lambda: moved_from(loop, lost), "no failover")
        three.start(lost)
        await writers.wait_acknowledged()
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
        await wait_until(lambda: moved_from(loop, lost), "no failover")
        three.start(lost)
        await writers.wait_acknowledged()
        await loop.heal(writing=True)
        completed = (loop.notices + other.notices).count("FailoverCompleted")
        await other.kill()
        await check(loop, writers)
    assert completed == 1


# Changes of the size.


@pytest.mark.soak
@pytest.mark.parametrize("server", ENGINES)
async def test_faults_while_the_size_changes_lose_no_write(server: str, tmp_path: Path):
    """The faults of a seed hit a cluster that grows to four members, shrinks to three, and grows again."""
    with members_of(tmp_path, 4, server=server) as members:
        three_members = replace(policy(members), members=tuple(members.names[:3]))
        async with running(members, three_members) as loop:
            writers = Writers(loop, 4)
            faults, chance = Faults(loop, SIZE_SEED), random.Random(SIZE_SEED)
            for size in (4, 3, 4):
                loop.policy = replace(loop.policy, members=tuple(members.names[:size]))
                await asyncio.sleep(chance.uniform(0, 3))  # the fault hits any step of the change
                await faults.inject()
                await loop.heal(writing=True)
                assert len(loop.stored.quorum.members) == size, faults.done
                await writers.wait_acknowledged()
            await check(loop, writers)
