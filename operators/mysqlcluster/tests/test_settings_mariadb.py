"""Variables, restarts and drains on real MariaDB servers, with the state machine as the operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiomysql
import pytest
from msgspec.structs import replace

from mysqlcluster.actions import Drain, SetVariables
from mysqlcluster.server_settings import revision
from tests.history import WAIT_SECONDS, Outcome, Writers, policy, problems, read_all, running
from tests.members import Members, application, bootstrap, members_of, run, until

pytestmark = pytest.mark.slow


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3) as members:
        yield members


async def value(members: Members, member: str, name: str) -> str:
    async with application(members, member) as connection:
        return str((await run(connection, f"SHOW GLOBAL VARIABLES LIKE '{name}'"))[0][1])


async def test_variables_change_under_writes_and_those_that_need_a_restart_lose_nothing(three: Members):
    config = {**three.server_settings, "max_connections": "123", "back_log": "70"}
    before = replace(policy(three), detection_seconds=2.0)
    async with running(three, before) as loop:
        old = loop.stored.primary
        writers = Writers(loop, 2)
        loop.policy = replace(before, settings=tuple(sorted(config.items())), settings_revision=revision(config))
        async with asyncio.timeout(WAIT_SECONDS):
            for name in three.names:
                await until(
                    loop.client,
                    name,
                    lambda state: (
                        state.settings_revision == revision(config)
                        and state.server_up
                        and not state.restart_required
                        and state.starts > 1
                    ),
                )
        history = await writers.stop()
        await loop.until_healthy()
        assert loop.stored.primary != old
        for name in three.names:
            assert await value(three, name, "max_connections") == "123"
            assert await value(three, name, "back_log") == "70"
        final = await read_all(three, three.names)
    assert history.numbers(Outcome.OK)
    assert problems(history, final) == []


async def test_a_variable_that_the_server_refuses_is_reported_and_changes_nothing(tmp_path: Path):
    with members_of(tmp_path, 1) as members:
        async with members.client() as client:
            await bootstrap(client, members)
            state = await client.act(
                SetVariables(member="m-0", epoch=1, values={"no_such_variable": "1"}, revision="wanted")
            )
            assert state.settings_revision == "wanted"
            assert "no_such_variable" in state.settings_error
            reserved = SetVariables(member="m-0", epoch=1, values={"read-only": "OFF"}, revision="other")
            assert "read_only" in (await client.act(reserved)).settings_error


async def test_a_drain_lets_clients_finish_and_then_closes_their_connections(tmp_path: Path):
    with members_of(tmp_path, 1) as members:
        async with members.client() as client:
            await bootstrap(client, members)
            async with application(members, "m-0") as connection:
                draining = await client.act(Drain(member="m-0", epoch=1, drain_seconds=1.0))
                assert (draining.draining, draining.drained) == (True, False)
                await run(connection, "SELECT 1")
                await until(client, "m-0", lambda state: state.drained)
                with pytest.raises((aiomysql.OperationalError, ConnectionError)):
                    await run(connection, "SELECT 1")
