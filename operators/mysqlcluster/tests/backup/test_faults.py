"""Faults during backups of real servers: killed agents and archivers, a change of the member, and gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.backup.catalog import split_header
from mysqlcluster.backup.plan import text_of
from mysqlcluster.backup.protocol import TakeBackup
from mysqlcluster.gtid import GtidSet
from tests.backup.archivers import Archiver, in_directory
from tests.backup.test_restore import archiver_of, restored, writing
from tests.members import Members, bootstrap, members_of, until

pytestmark = pytest.mark.slow


@pytest.fixture(params=["mariadb-10.11", pytest.param("mysql-9.7", marks=pytest.mark.soak)])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path / "a", 1, server=request.param) as members:
        yield members


async def failed(archiver: Archiver, name: str) -> str:
    state = await archiver.until(lambda state: any(each.name == name for each in state.failures))
    return next(each.problem for each in state.failures if each.name == name)


async def test_a_killed_agent_or_archiver_leaves_no_backup_and_the_next_attempt_makes_one(one: Members, tmp_path: Path):
    archive = in_directory(tmp_path / "target")
    with archiver_of(tmp_path / "b", one, archive) as archiver:
        async with one.client() as client:
            await bootstrap(client, one)
            await archiver.follow("m-0")
            await archiver.send(TakeBackup(name="cut", source="m-0"))
            one.kill("m-0")
            assert "m-0" in await failed(archiver, "cut") or "127.0.0.1" in await failed(archiver, "cut")
            assert (await archiver.state()).backups == ()

            one.start("m-0")
            await until(client, "m-0", lambda state: state.server_up)
            await archiver.send(TakeBackup(name="cut", source="m-0", attempt=2))
            await archiver.until(lambda state: state.running is not None)
            archiver.kill()
            archiver.start()
            await archiver.follow("m-0")
            assert (await archiver.state()).backups == ()
            assert not list((tmp_path / "target").rglob("*.part"))
            assert (await archiver.back_up("cut", "m-0")).verified


async def test_a_gap_is_reported_by_name_and_a_restore_across_it_is_refused(one: Members, tmp_path: Path):
    archive = in_directory(tmp_path / "target")
    segments = tmp_path / "target" / archive["location"] / "binlog"
    with archiver_of(tmp_path / "b", one, archive) as archiver:
        async with one.client() as client:
            await bootstrap(client, one)
            await archiver.follow("m-0")
            async with writing(one, "m-0") as writer:
                await writer.create()
                await archiver.back_up("first", "m-0")
                await writer.next_second()
                for _ in range(3):  # each restart begins another segment
                    await writer.write(5)
                    reached = writer.committed[-1][1]
                    await archiver.until(
                        lambda state, reached=reached: reached in (state.position, *state.position.split(","))
                    )
                    archiver.kill()
                    archiver.start()
                    await archiver.follow("m-0")
                end = await writer.next_second()
            await archiver.until(lambda state: state.recoverable_to >= end)
            archiver.kill()
            number_of = {gtid: number for number, gtid, _ in writer.committed}
            made = {file: split_header(file.name, file.read_bytes())[0] for file in sorted(segments.iterdir())}
            assert len(made) >= 3
            # The first segment that begins after a write, and does not have the last one; slow runs have more segments.
            file, lost = next((file, header) for file, header in made.items() if header.after in number_of)
            assert lost.transactions == number_of[lost.until] - number_of[lost.after]
            assert number_of[lost.until] < number_of[reached]
            file.unlink()
            archiver.start()
            state = await archiver.until(lambda state: state.ready)
            (gap,) = state.gaps
            missing = f"after {lost.after} up to {lost.until}"
            if one.flavor == "mysql":
                missing = str(GtidSet.parse(lost.until).subtract(GtidSet.parse(lost.after)))
            assert gap.text.startswith(f"transactions {missing}, between ")
            with pytest.raises(AssertionError, match=f"a gap: transactions {missing}"):
                await restored(tmp_path, archive, server=one.server, backup="first", until_time=text_of(end))
            before, _, _ = await restored(tmp_path, archive, server=one.server, backup="first", until_gtid=lost.after)
            assert before == list(range(1, number_of[lost.after] + 1))
