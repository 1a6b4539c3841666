"""Upgrades of the data on real servers: MariaDB 10.11 to 11.8, and rollback by a copy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mysqlcluster import actions
from mysqlcluster.agent.record import load_record
from tests.members import WAIT_SECONDS, Members, application, bootstrap, follow, members_of, run, server_root, until

pytestmark = pytest.mark.slow


def install(members: Members, name: str, server: str) -> None:
    """Replace the server that the next agent of a member starts."""
    file = members.directory / f"{name}.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "rootDirectory": str(server_root(server))}))


def data_version(members: Members, name: str) -> str:
    return load_record(members.directory / name / "agent.json").data_version


@pytest.mark.soak
async def test_a_replica_is_upgraded_in_place_and_goes_back_by_a_copy(tmp_path: Path):
    server_root("mariadb-11.8")
    with members_of(tmp_path, 2) as members:
        async with members.client() as client:
            await bootstrap(client, members)
            async with application(members, "m-0") as connection:
                await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
                await run(connection, "INSERT INTO items VALUES (1)")

            members.kill("m-1")
            install(members, "m-1", "mariadb-11.8")
            members.start("m-1")
            state = await until(client, "m-1", lambda state: state.server_up)
            assert state.version.startswith("11.8.")
            async with asyncio.timeout(WAIT_SECONDS):
                while not data_version(members, "m-1").startswith("11.8."):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)
            await follow(client, members, "m-1", "m-0", 1)
            async with application(members, "m-0") as connection:
                await run(connection, "INSERT INTO items VALUES (2)")
            primary = await client.state("m-0")
            replica = await until(client, "m-1", lambda state: state.executed.contains(primary.executed))
            assert replica.executed == primary.executed  # the upgrade is not written to the binary log

            members.kill("m-1")
            install(members, "m-1", "mariadb-10.11")
            members.start("m-1")
            refused = await until(client, "m-1", lambda state: state.reachable and not state.initialized)
            assert (refused.complete, refused.server_up) == (False, False)
            await client.act(actions.Clone(member="m-1", epoch=1, source="m-0", required=str(primary.executed)))
            back = await until(client, "m-1", lambda state: state.initialized and not state.clone.running)
            assert back.complete
            assert back.version.startswith("10.11.")
            await follow(client, members, "m-1", "m-0", 1)
            async with application(members, "m-1") as connection:
                assert await run(connection, "SELECT id FROM items ORDER BY id") == [(1,), (2,)]


@pytest.mark.soak
async def test_a_copy_of_a_later_series_is_refused(tmp_path: Path):
    later = str(server_root("mariadb-11.8"))
    with members_of(tmp_path, 2) as members:
        async with members.client() as client:
            for name in members.names:
                await until(client, name, lambda state: state.reachable)
            members.kill("m-0")
            install(members, "m-0", "mariadb-11.8")
            members.start("m-0")
            await until(client, "m-0", lambda state: state.reachable)
            await client.act(actions.Initialize(member="m-0", epoch=1))
            await client.act(actions.Promote(member="m-0", epoch=1, ack_count=0))
            await client.act(actions.Clone(member="m-1", epoch=1, source="m-0"))
            state = await until(client, "m-1", lambda state: not state.clone.running and bool(state.clone.error))
            assert not state.initialized
            assert later not in state.clone.error
