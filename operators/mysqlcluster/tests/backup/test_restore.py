"""Backups of real servers and restores into new ones, from a directory and from a real S3 server."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mysqlcluster import actions
from mysqlcluster.backup.plan import text_of
from mysqlcluster.observation import MemberState
from tests.backup.archivers import Archiver, encryption_key, in_directory, in_s3, s3_server
from tests.members import REVISION, Members, application, bootstrap, members_of, run, server_root, until

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(kind: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    place, _, encrypted = kind.partition("-")
    key = encryption_key(tmp_path) if encrypted else None
    if place == "directory":
        yield in_directory(tmp_path / "target", key=key)
        return
    with s3_server(tmp_path) as endpoint:
        yield in_s3(endpoint, tmp_path, key=key)


@pytest.fixture
def one(server: str, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path / "a", 1, server=server) as members:
        yield members


@contextlib.contextmanager
def archiver_of(directory: Path, members: Members, archive: Any, source: Any = None) -> Iterator[Archiver]:
    archiver = Archiver(directory, members, archive, source)
    archiver.start()
    try:
        yield archiver
    finally:
        archiver.close()


class Writer:
    """Writes rows, and records the GTID and the second of each commit."""

    def __init__(self, connection: Any, flavor: str) -> None:
        self._connection = connection
        self._position = "@@last_gtid" if flavor == "mariadb" else "@@GLOBAL.gtid_executed"
        self.committed: list[tuple[int, str, int]] = []

    async def create(self) -> None:
        await run(self._connection, "CREATE TABLE items (id BIGINT PRIMARY KEY, content LONGBLOB)")

    async def write(self, count: int, content: bytes = b"x\0'\\\xff") -> None:
        for _ in range(count):
            number = len(self.committed) + 1
            await run(self._connection, "INSERT INTO items VALUES (%s, UNHEX(%s))", number, content.hex())
            ((gtid, now),) = await run(self._connection, f"SELECT {self._position}, UNIX_TIMESTAMP()")
            self.committed.append((number, gtid, now))

    async def next_second(self) -> int:
        """Wait for the next second of the server's clock, and return it."""
        await run(self._connection, "DO SLEEP(1.05 - MOD(UNIX_TIMESTAMP(NOW(6)), 1))")
        ((now,),) = await run(self._connection, "SELECT UNIX_TIMESTAMP()")
        return int(now)

    def before(self, second: int) -> list[int]:
        return [number for number, _, time in self.committed if time < second]


@contextlib.asynccontextmanager
async def writing(members: Members, name: str) -> AsyncGenerator[Writer]:
    async with application(members, name) as connection:
        yield Writer(connection, members.flavor)


async def restored(
    directory: Path, source: dict[str, Any], *, server: str = "mariadb-10.11", **point: str
) -> tuple[list[int], MemberState, float]:
    """Restore into a new member; return its rows, its state, and the duration in seconds."""
    new = Path(tempfile.mkdtemp(dir=directory))
    placeholder = Members(new / "unused", 1, server_root(server), flavor=server.partition("-")[0])
    with contextlib.ExitStack() as stack:
        archiver = stack.enter_context(archiver_of(new / "b", placeholder, None, source))
        members = stack.enter_context(members_of(new / "m", 1, server=server, archiver_url=archiver.url))
        async with members.client() as client:
            await until(client, "m-0", lambda state: state.reachable)
            await archiver.until(lambda state: state.ready)
            began = time.monotonic()
            await client.act(actions.Restore(member="m-0", epoch=1, **point))
            state = await until(client, "m-0", lambda state: state.initialized or state.clone.error)
            took = time.monotonic() - began
            if state.clone.error:
                raise AssertionError(state.clone.error)
            await client.act(actions.Promote(member="m-0", epoch=1, ack_count=0))
            await client.act(actions.CreateAccounts(member="m-0", epoch=1, revision=REVISION))
            async with application(members, "m-0") as connection:
                return [row[0] for row in await run(connection, "SELECT id FROM items ORDER BY id")], state, took


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        ("mariadb-10.11", "directory-encrypted"),
        ("mariadb-10.11", "s3"),
        ("mysql-9.7", "s3-encrypted"),
        pytest.param("mariadb-10.11", "directory", marks=pytest.mark.soak),
        pytest.param("mariadb-10.11", "s3-encrypted", marks=pytest.mark.soak),
        pytest.param("mysql-9.7", "directory", marks=pytest.mark.soak),
        pytest.param("mysql-9.7", "directory-encrypted", marks=pytest.mark.soak),
        pytest.param("mysql-9.7", "s3", marks=pytest.mark.soak),
    ],
)
async def test_a_new_server_gets_the_state_of_a_second_of_a_gtid_or_of_a_backup(
    one: Members, archive: dict[str, Any], tmp_path: Path
):
    server = one.server
    with archiver_of(tmp_path / "b", one, archive) as archiver:
        async with one.client() as client:
            await bootstrap(client, one)
            await archiver.follow("m-0")
            async with writing(one, "m-0") as writer:
                await writer.create()
                await writer.write(20)
                manifest = await archiver.back_up("first", "m-0")
                await writer.next_second()
                await writer.write(30)
                second = await writer.next_second()
                await writer.write(30, b"y" * 200_000)
                end = await writer.next_second()
            state = await archiver.until(lambda state: state.recoverable_to >= end)
            assert (state.gaps, state.problem) == ((), "")
            assert manifest.encrypted == bool(archive["keyDirectory"])

            at_backup, _, _ = await restored(tmp_path, archive, server=server, backup="first")
            assert at_backup == list(range(1, 21))

            to_second, _, _ = await restored(
                tmp_path, archive, server=server, backup="first", until_time=text_of(second)
            )
            assert to_second == writer.before(second) == list(range(1, 51))

            _, gtid, _ = writer.committed[64]
            to_gtid, member, _ = await restored(tmp_path, archive, server=server, backup="first", until_gtid=gtid)
            assert to_gtid == list(range(1, 66))
            assert str(member.executed) == gtid
    assert "archiver_started" in archiver.log.read_text()
    assert "secret-of-the-test-account" not in archiver.log.read_text()
