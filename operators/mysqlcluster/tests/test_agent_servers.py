"""Agents with real servers of both flavors: bootstrap, replication by copies, failover, refusals, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiomysql
import pytest

from mysqlcluster import actions
from mysqlcluster.agent.client import ActionRefusedError
from mysqlcluster.gtid import Comparison
from mysqlcluster.observation import Role
from tests.members import Members, application, bootstrap, follow, members_of, run, until

pytestmark = pytest.mark.slow


@pytest.fixture(params=["mariadb-10.11", pytest.param("mysql-9.7", marks=pytest.mark.soak)])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=request.param) as members:
        yield members


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    """Three members of each flavor; these tests are not skipped in short runs."""
    with members_of(tmp_path, 3, server=request.param) as members:
        yield members


async def write(members: Members, name: str, value: int) -> None:
    async with application(members, name) as connection:
        await run(connection, "INSERT INTO items VALUES (%s)", value)


async def values(members: Members, name: str) -> list[int]:
    async with application(members, name) as connection:
        return [row[0] for row in await run(connection, "SELECT id FROM items ORDER BY id")]


async def create_table(members: Members, name: str) -> None:
    async with application(members, name) as connection:
        await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")


async def test_an_acknowledged_write_survives_the_death_of_the_primary(both: Members):
    async with both.client() as client:
        await bootstrap(client, both)
        await create_table(both, "m-0")
        for value in range(20):
            await write(both, "m-0", value)
        both.kill("m-0")
        fenced = [await client.act(actions.Fence(member=name, epoch=2)) for name in ("m-1", "m-2")]
        assert all(state.is_fenced(2) for state in fenced)
        first, second = fenced
        assert first.received.compare(second.received) is not Comparison.INCOMPARABLE
        chosen = first if first.received.contains(second.received) else second
        other = "m-2" if chosen.name == "m-1" else "m-1"
        await until(client, chosen.name, lambda state: state.executed.contains(state.retrieved))
        promoted = await client.act(actions.Promote(member=chosen.name, epoch=2, ack_count=1))
        assert (promoted.role, promoted.read_only, promoted.semi_sync_source) == (Role.PRIMARY, False, True)
        await follow(client, both, other, chosen.name, 2)
        await write(both, chosen.name, 100)
        assert await values(both, chosen.name) == [*range(20), 100]

        both.start("m-0")
        back = await until(client, "m-0", lambda state: state.server_up)
        assert (back.role, back.read_only, back.complete, back.epoch) == (Role.NONE, True, True, 1)
        await follow(client, both, "m-0", chosen.name, 2)
        new_primary = await client.state(chosen.name)
        await until(client, "m-0", lambda state: state.executed.contains(new_primary.executed))
        assert await values(both, "m-0") == [*range(20), 100]


async def test_a_write_without_an_acknowledgement_does_not_commit_and_is_an_errant_transaction(both: Members):
    async with both.client() as client:
        await bootstrap(client, both)
        await create_table(both, "m-0")
        for name in ("m-1", "m-2"):
            await client.act(actions.Fence(member=name, epoch=2))
        received = (await client.state("m-1")).received
        waiting = asyncio.create_task(write(both, "m-0", 1))
        # An agent reads the log's position before the number of waiting commits.
        await until(client, "m-0", lambda s: s.commits_waiting == 1 and s.logged.subtract(received).count == 1)
        assert not waiting.done()
        assert (await client.state("m-1")).received == received
        demoted = await client.act(actions.Demote(member="m-0", epoch=2, drain_seconds=0.2))
        assert (demoted.read_only, demoted.role) == (True, Role.NONE)
        with pytest.raises((aiomysql.Error, ConnectionError)):
            await waiting
        errant = demoted.executed.subtract((await client.state("m-1")).received)
        assert errant.count == 1


async def test_a_primary_that_is_stopped_reports_no_write_that_no_replica_acknowledged(both: Members):
    async with both.client() as client:
        await bootstrap(client, both)
        await create_table(both, "m-0")
        for name in ("m-1", "m-2"):
            await client.act(actions.Fence(member=name, epoch=2))
        waiting = asyncio.create_task(write(both, "m-0", 1))
        await until(client, "m-0", lambda state: state.commits_waiting == 1)
        await asyncio.to_thread(both.stop, "m-0")
        with pytest.raises((aiomysql.Error, ConnectionError)):
            await waiting


async def test_an_agent_refuses_a_lower_epoch_also_after_a_restart(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        await client.act(actions.Fence(member="m-1", epoch=7))
        three.kill("m-1")
        three.start("m-1")
        await until(client, "m-1", lambda state: state.server_up)
        with pytest.raises(ActionRefusedError, match="epoch 6 is lower than 7"):
            await client.act(actions.Promote(member="m-1", epoch=6, ack_count=0))


async def test_a_killed_replica_is_incomplete_until_it_has_what_the_primary_has(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        await create_table(three, "m-0")
        three.kill_server("m-1")
        lost = await until(client, "m-1", lambda state: state.server_up and state.role is Role.NONE)
        assert not lost.complete
        await write(three, "m-0", 1)
        primary = await client.state("m-0")
        with pytest.raises(ActionRefusedError, match="transactions are missing"):
            await client.act(actions.ConfirmComplete(member="m-1", epoch=1, received=str(primary.executed)))
        await follow(client, three, "m-1", "m-0", 1)
        await until(client, "m-1", lambda state: state.executed.contains(primary.executed))
        confirmed = await client.act(actions.ConfirmComplete(member="m-1", epoch=1, received=str(primary.executed)))
        assert confirmed.complete


async def test_replicas_and_the_application_cannot_write_where_it_is_read_only(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        await create_table(three, "m-0")
        await until(client, "m-1", lambda state: state.executed.contains(state.retrieved))
        with pytest.raises(aiomysql.Error, match="read-only"):
            await write(three, "m-1", 1)


async def test_no_log_and_no_report_holds_a_password(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        three.kill_server("m-0")
        await until(client, "m-0", lambda state: state.server_up and state.starts > 1)
    assert "agent_started" in three.logs()
    assert not [
        value for value in ("replication-password", "application-password", "root-pass") if value in three.logs()
    ]


async def test_only_a_complete_member_of_this_epoch_is_promoted(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        with pytest.raises(ActionRefusedError, match="in epoch 1, not in 2"):
            await client.act(actions.Promote(member="m-1", epoch=2, ack_count=1))
        three.kill_server("m-1")
        await until(client, "m-1", lambda state: state.server_up and not state.complete)
        await client.act(actions.Fence(member="m-1", epoch=2))
        with pytest.raises(ActionRefusedError, match="acknowledged transactions may be missing"):
            await client.act(actions.Promote(member="m-1", epoch=2, ack_count=1))
