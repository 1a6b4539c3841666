"""Binary logs are deleted only when the archive and every member have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.actions import PurgeBinlogs
from mysqlcluster.agent.client import ActionRefusedError, AgentClient
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MemberStatus
from mysqlcluster.backup.purging import KEEP_SECONDS, LOST_MEMBER_SECONDS, LogFile, first_kept, purges
from mysqlcluster.gtid import GtidError
from tests.members import Members, application, bootstrap, follow, members_of, run, until

FILES = [
    LogFile("binlog.000001", "", 100.0),
    LogFile("binlog.000002", "0-1-10", 200.0),
    LogFile("binlog.000003", "0-1-20", 300.0),
    LogFile("binlog.000004", "0-1-25,0-2-30", 400.0),
]


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        (["0-1-9"], ""),
        (["0-1-10"], "binlog.000002"),
        (["0-1-25,0-2-30", "0-1-20"], "binlog.000003"),
        (["0-1-25", "0-1-25,0-2-30"], "binlog.000003"),
        (["0-1-25,0-2-99"], "binlog.000004"),
        (["0-1-99,0-2-99", ""], ""),
    ],
)
def test_a_file_stays_until_every_holder_has_its_transactions(held: list[str], kept: str):
    assert first_kept(FILES, held, 0, 1000.0) == kept


def test_a_young_file_and_the_newest_file_stay():
    assert first_kept(FILES, ["0-1-99,0-2-99"], 750, 1000.0) == "binlog.000003"
    assert first_kept(FILES[-1:], ["0-1-99,0-2-99"], 0, 1000.0) == ""


def test_nothing_is_deleted_when_no_holder_is_named():
    with pytest.raises(GtidError, match="no GTID set"):
        first_kept(FILES, [], 0, 1000.0)


def member(name: str, gtid: str, role: str = "replica") -> MemberStatus:
    return MemberStatus(name=name, role=role, gtid=gtid)


def test_the_archive_and_every_known_member_are_holders():
    members = [member("db-0", "0-1-30", "primary"), member("db-1", "0-1-28")]
    first, second = purges(members, 3, "0-1-20")
    assert first == PurgeBinlogs(member="db-0", epoch=3, held=("0-1-30", "0-1-28", "0-1-20"), keep_seconds=KEEP_SECONDS)
    assert second.member == "db-1"
    assert purges(members, 3, None)[0].held == ("0-1-30", "0-1-28")


def test_an_unknown_archive_deletes_nothing_and_an_unknown_member_keeps_files_for_days():
    members = [member("db-0", "0-1-30", "primary"), member("db-1", "", "")]
    assert purges(members, 3, "") == ()
    (only,) = purges(members, 3, "0-1-20")
    assert (only.member, only.keep_seconds) == ("db-0", LOST_MEMBER_SECONDS)


@pytest.fixture(params=["mariadb-10.11", pytest.param("mysql-9.7", marks=pytest.mark.soak)])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=request.param) as members:
        yield members


def logs(members: Members, name: str) -> list[str]:
    return sorted(each.name for each in (members.directory / name / "database").glob("binlog.0*"))


async def caught_up(client: AgentClient, primary: str, *replicas: str) -> str:
    wanted = (await client.state(primary)).executed
    for name in replicas:
        await until(client, name, lambda state: state.executed.contains(wanted))
    return str(wanted)


async def restarted(client: AgentClient, members: Members, name: str) -> None:
    """Kill the server of a member, so that it starts another binary log."""
    starts = (await client.state(name)).starts
    members.kill_server(name)
    await until(client, name, lambda state: state.server_up and state.starts > starts)


@pytest.mark.slow
async def test_a_server_deletes_what_the_archive_has_and_replicas_go_on(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        async with application(three, "m-0") as connection:
            await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
        early = await caught_up(client, "m-0", "m-1", "m-2")
        await restarted(client, three, "m-1")
        async with application(three, "m-0") as connection:
            await run(connection, "INSERT INTO items VALUES (1)")
        await follow(client, three, "m-1", "m-0", 1)
        await caught_up(client, "m-0", "m-1", "m-2")
        await restarted(client, three, "m-1")  # starts the third file; the second one contains the write
        first, second, third = logs(three, "m-1")
        late = str((await client.state("m-1")).executed)

        await client.act(PurgeBinlogs(member="m-1", epoch=1, held=(late, late), keep_seconds=3600))
        assert logs(three, "m-1") == [first, second, third]
        await client.act(PurgeBinlogs(member="m-1", epoch=1, held=(late, early), keep_seconds=0))
        assert logs(three, "m-1") == [second, third]
        await client.act(PurgeBinlogs(member="m-1", epoch=1, held=(late, late), keep_seconds=0))
        assert logs(three, "m-1") == [third]
        with pytest.raises(ActionRefusedError, match="PurgeBinlogs failed"):
            await client.act(PurgeBinlogs(member="m-1", epoch=1, held=("nonsense",), keep_seconds=0))

        await follow(client, three, "m-1", "m-0", 1)
        async with application(three, "m-0") as connection:
            await run(connection, "INSERT INTO items VALUES (2)")
        await caught_up(client, "m-0", "m-1", "m-2")
