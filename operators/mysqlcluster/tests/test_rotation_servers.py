"""The rotation of passwords on real servers under a workload: no write fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import aiomysql
import pytest

from mysqlcluster.actions import CreateAccounts, Reconnect
from mysqlcluster.agent.client import ActionRefusedError, AgentClient
from mysqlcluster.credentials import revision
from tests.members import REVISION, SECRETS, WAIT_SECONDS, Members, application, bootstrap, members_of, run, until

pytestmark = pytest.mark.slow

NEW = {key: value if key == "agent-token" else f"new-{value}" for key, value in SECRETS.items()}
NEW_REVISION = revision({key: value.encode() for key, value in NEW.items()})
PAUSE_SECONDS = 0.02
"""Time between two writes, so that the replicas of a busy machine keep up."""
OLD_PASSWORD, NEW_PASSWORD = SECRETS["application-password"], NEW["application-password"]


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=request.param) as members:
        yield members


class Workload:
    """Writes on one connection that stays, and on a new connection for each write, until it is cancelled."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.password = OLD_PASSWORD
        """The password of new connections."""
        self.written: list[int] = []
        self.stop = asyncio.Event()

    async def stay(self) -> None:
        async with application(self._members, "m-0", OLD_PASSWORD) as connection:
            while not self.stop.is_set():
                await self._write(connection)

    async def reconnect(self) -> None:
        while not self.stop.is_set():
            async with application(self._members, "m-0", self.password) as connection:
                await self._write(connection)

    async def _write(self, connection: aiomysql.Connection) -> None:
        number = len(self.written) + 1
        self.written.append(number)
        async with asyncio.timeout(WAIT_SECONDS):
            await run(connection, "INSERT INTO items VALUES (%s)", number)
        await asyncio.sleep(PAUSE_SECONDS)

    async def goes_on(self) -> None:
        """Wait for more writes."""
        reached = len(self.written) + 20
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.written) < reached:  # noqa: ASYNC110 - real processes have no event
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def working(members: Members) -> AsyncGenerator[Workload]:
    """Run a workload; an error of one of its writes ends the test."""
    work = Workload(members)
    async with asyncio.TaskGroup() as group:
        group.create_task(work.stay())
        group.create_task(work.reconnect())
        yield work
        work.stop.set()


async def accepts(members: Members, member: str, password: str) -> bool:
    try:
        async with application(members, member, password):
            return True
    except aiomysql.OperationalError:
        return False


async def reconnected(client: AgentClient, member: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:  # the operator repeats an action that a busy machine has not performed in time
            with contextlib.suppress(ActionRefusedError):
                await client.act(Reconnect(member=member, epoch=1, revision=NEW_REVISION))
                break
            await asyncio.sleep(0.2)
    state = await until(client, member, lambda state: state.follows("m-0", 1) and state.semi_sync_replica)
    assert state.replication_revision == NEW_REVISION


async def test_all_passwords_change_under_writes_and_no_write_fails(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        async with application(three, "m-0") as connection:
            await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
        with pytest.raises(ActionRefusedError, match="the mounted Secret has revision"):
            await client.act(CreateAccounts(member="m-0", epoch=1, revision=NEW_REVISION))
        async with working(three) as work:
            await work.goes_on()
            three.write_secrets(NEW)
            for _ in range(2):  # a repetition keeps the former password
                await client.act(CreateAccounts(member="m-0", epoch=1, revision=NEW_REVISION))
            assert await accepts(three, "m-0", OLD_PASSWORD)
            assert await accepts(three, "m-0", NEW_PASSWORD)
            for member in ("m-1", "m-2"):
                await reconnected(client, member)
                await work.goes_on()
            work.password = NEW_PASSWORD
            await work.goes_on()
            await client.act(CreateAccounts(member="m-0", epoch=1, revision=NEW_REVISION, retire_old=True))
            await work.goes_on()
        assert not await accepts(three, "m-0", OLD_PASSWORD)
        primary = await client.state("m-0")
        assert primary.server_up
        for member in ("m-1", "m-2"):
            await until(client, member, lambda state: state.executed.contains(primary.executed))
            assert await accepts(three, member, NEW_PASSWORD)
            assert not await accepts(three, member, OLD_PASSWORD)
        async with application(three, "m-1", NEW_PASSWORD) as connection:
            rows = await run(connection, "SELECT id FROM items ORDER BY id")
        # The workload may have been cancelled during its last write of each connection.
        assert {row[0] for row in rows} >= set(work.written[:-2])
    assert not [value for value in (*SECRETS.values(), *NEW.values()) if value in three.logs()]


async def test_a_server_that_starts_after_the_secret_has_changed_is_reachable(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        await asyncio.to_thread(three.stop, "m-1")
        three.write_secrets(NEW)
        three.start("m-1")
        state = await until(client, "m-1", lambda state: state.server_up)
        assert state.read_only
        assert (await client.state("m-0")).accounts_revision == REVISION
