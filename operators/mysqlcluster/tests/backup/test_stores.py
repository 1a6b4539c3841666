"""Targets: only one of two processes creates an object, and two archivers of one target lose no transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.backup.archive import from_bytes
from mysqlcluster.backup.positions import covers, parse_position
from mysqlcluster.backup.s3 import S3Store
from mysqlcluster.backup.stores import DirectoryStore, ExistingObjectError, Store, collected
from tests.backup.archivers import BUCKET, KEYS, in_directory, s3_server
from tests.backup.test_restore import archiver_of, restored, writing
from tests.members import Members, bootstrap, members_of


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "directory":
        yield DirectoryStore(tmp_path / "target")
        return
    with s3_server(tmp_path) as endpoint:
        yield S3Store(
            endpoint=endpoint,
            bucket=BUCKET,
            prefix="shop",
            region="us-east-1",
            access_key=KEYS["accessKeyId"],
            secret_key=KEYS["secretAccessKey"],
        )


async def test_of_two_processes_one_creates_an_object(store: Store):
    async def create(content: bytes) -> bytes:
        try:
            await store.put("binlog/1", from_bytes(content), new=True)
        except ExistingObjectError:
            return b""
        return content

    made = [each for each in await asyncio.gather(create(b"one"), create(b"two")) if each]
    assert len(made) == 1
    assert await collected(store.get("binlog/1"), 100) == made[0]
    assert await store.keys("binlog/") == ["binlog/1"]
    await store.put("binlog/1", from_bytes(b"three"))
    assert await collected(store.get("binlog/1"), 100) == b"three"


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path / "a", 1) as members:
        yield members


@pytest.mark.slow
async def test_two_archivers_of_one_target_lose_nothing(one: Members, tmp_path: Path):
    archive = in_directory(tmp_path / "target")
    with (
        archiver_of(tmp_path / "first", one, archive) as first,
        archiver_of(tmp_path / "second", one, archive) as second,
    ):
        async with one.client() as client:
            await bootstrap(client, one)
            await first.follow("m-0")
            async with writing(one, "m-0") as writer:
                await writer.create()
                await first.back_up("first", "m-0")
                await second.follow("m-0")
                for _ in range(30):
                    await writer.write(5)
                    await asyncio.sleep(0.05)  # both archivers run more rounds
                end = writer.committed[-1][1]
                reached = await writer.next_second()
            for each in (first, second):
                await each.until(lambda state: covers(parse_position(state.position), parse_position(end)))
                await each.until(lambda state: state.recoverable_to >= reached)
        assert "archive_contested" in first.log.read_text() + second.log.read_text()
        rows, _, _ = await restored(tmp_path, archive, backup="first", until_gtid=end)
        assert rows == list(range(1, 151))
        second.close()
        state = await first.until(lambda state: state.recoverable_to >= reached and not state.problem)
        assert state.gaps == ()
