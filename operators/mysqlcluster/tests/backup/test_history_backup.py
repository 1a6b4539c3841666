"""Histories of writes under faults during backups: a restored cluster has the same rows as the members."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackupStatus
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MemberStatus, MySQLClusterStatus
from mysqlcluster.backup.lifecycle import ENDED, Facts, advance
from mysqlcluster.backup.positions import covers, parse_position
from mysqlcluster.backup.protocol import Follow
from mysqlcluster.backup.setup import member_to_read
from mysqlcluster.gtid import GtidSet
from mysqlcluster.status import role_of
from tests.backup.archivers import Archiver, in_directory
from tests.backup.test_restore import archiver_of, restored
from tests.history import Faults, Loop, Outcome, Writers, overlaps, policy, problems, read_all, running
from tests.members import Members, members_of

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("BACKUP_HISTORY_RUNS", "1"))
FAULTS = 3
POLL_SECONDS = 0.2


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def three(request: pytest.FixtureRequest, tmp_path: Path):
    with members_of(tmp_path / "members", 3, server=request.param) as members:
        yield members


class Backups:
    """The tasks of the operator in backups: it chooses the member that the archive follows, and takes full backups."""

    def __init__(self, loop: Loop, archiver: Archiver) -> None:
        self._loop = loop
        self._archiver = archiver
        self._source = ""
        self.statuses: list[MySQLBackupStatus] = []
        self.wanted = True
        """Whether another backup starts after the current one."""

    async def member(self) -> str:
        seen = await self._loop.observe()
        status = MySQLClusterStatus(
            members=tuple(MemberStatus(name=each.name, role=role_of(self._loop.stored, each)) for each in seen.members)
        )
        return "" if self._loop.stored.transition is not None else member_to_read(status, self._source)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # the test sometimes kills the archiver
                await self._step()
            await asyncio.sleep(POLL_SECONDS)

    async def _step(self) -> None:
        state, member = await self._archiver.state(), await self.member()
        if not state.ready:
            return
        if member and member != state.source:
            await self._archiver.send(Follow(source=member))
            self._source = member
        if not self.statuses or (self.statuses[-1].phase in ENDED and self.wanted):
            self.statuses.append(MySQLBackupStatus())
        status = self.statuses[-1]
        step = advance(f"full-{len(self.statuses)}", status, Facts(state, member))
        self.statuses[-1] = step.status
        if step.job is not None and step.status == status:
            await self._archiver.send(step.job)


@contextlib.asynccontextmanager
async def backed_up(loop: Loop, archiver: Archiver) -> AsyncGenerator[Backups]:
    backups = Backups(loop, archiver)
    async with asyncio.TaskGroup() as group:  # an error of the task ends the test
        task = group.create_task(backups.run())
        try:
            yield backups
        finally:
            task.cancel()


def has_reached(members: Members, position: str, end: str) -> bool:
    """Return whether a position of the archive contains the transactions of a member."""
    if members.flavor == "mysql":
        return GtidSet.parse(position).contains(GtidSet.parse(end))
    return covers(parse_position(position), parse_position(end))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(RUNS))
async def test_a_restore_has_every_acknowledged_write_after_faults_during_backups(
    three: Members, tmp_path: Path, seed: int
):
    archive = in_directory(tmp_path / "target")
    chance = random.Random(1000 + seed)
    with archiver_of(tmp_path / "b", three, archive) as archiver:
        async with running(three, policy(three)) as loop, backed_up(loop, archiver) as backups:
            await archiver.until(lambda state: bool(state.source and state.position))
            writers = Writers(loop, 4)
            faults = Faults(loop, seed)
            for _ in range(FAULTS):
                if chance.random() < 0.5:
                    faults.done.append("archiver killed")
                    archiver.kill()
                    archiver.start()
                await faults.inject()
            history = await writers.stop()
            await loop.heal()
            final = await read_all(three, three.names)
            assert history.numbers(Outcome.OK), faults.done
            assert problems(history, final) + overlaps(history, loop.cluster.terms) == [], faults.done

            end = str((await loop.observe()).get(loop.stored.primary).executed)
            backups.wanted = False
            async with asyncio.timeout(120):
                while not all(each.phase in ENDED for each in backups.statuses):  # noqa: ASYNC110 - real processes
                    await asyncio.sleep(POLL_SECONDS)
            state = await archiver.until(lambda state: state.ready and has_reached(three, state.position, end))
        assert state.gaps == (), faults.done
        assert any(each.phase == "Completed" for each in backups.statuses), (backups.statuses, faults.done)
        oldest = min((each for each in state.backups if each.verified), key=lambda each: each.ended)
        rows, _, _ = await restored(tmp_path, archive, server=three.server, backup=oldest.name, until_gtid=end)
    assert set(rows) == final[loop.stored.primary], faults.done
