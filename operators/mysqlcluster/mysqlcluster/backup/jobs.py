"""Full backups, their verification and deletion: idempotent jobs, one at a time, with results in the target."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import msgspec
from steersman.logs import get_logger

from mysqlcluster.agent.copies import receive_copy
from mysqlcluster.agent.process import CommandError
from mysqlcluster.agent.session import DriverError
from mysqlcluster.backup.archive import Archive
from mysqlcluster.backup.catalog import BackupManifest, CatalogError
from mysqlcluster.backup.members import MemberError, Members
from mysqlcluster.backup.protocol import DeleteBackup, JobFailure, TakeBackup, VerifyBackup
from mysqlcluster.backup.scratch import check_tables, scratch_server
from mysqlcluster.backup.sealing import SealError
from mysqlcluster.backup.stores import StoreError
from mysqlcluster.engines import Engine, Layout

__all__ = ["JobBusyError", "Jobs"]

_log = get_logger("mysqlcluster.archiver")

FAILURES = (
    CommandError,
    MemberError,
    StoreError,
    SealError,
    CatalogError,
    DriverError,
    OSError,
    TimeoutError,
    ValueError,
)
MAX_FAILURES = 64


class JobBusyError(RuntimeError):
    """Another job runs; the message names it."""


class Jobs:
    """Runs the jobs of one archive."""

    def __init__(
        self,
        archive: Archive,
        members: Members,
        engine: Engine,
        layout: Layout,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Store the arguments; `load` reads the target.

        Args:
            archive: The archive.
            members: Access to the agents.
            engine: The flavor of the server.
            layout: The server's programs, and the directory of scratch restores.
            now: The time in seconds.
        """
        self._archive = archive
        self._members = members
        self._engine = engine
        self._layout = layout
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self.running: TakeBackup | VerifyBackup | DeleteBackup | None = None
        self.failures: dict[tuple[str, str], JobFailure] = {}
        """The last failure by job and name of the backup."""
        self.manifests: dict[str, BackupManifest] = {}

    async def load(self) -> None:
        """Read the manifests from the target; raises `StoreError` or `CatalogError`."""
        self.manifests = {each.name: each for each in await self._archive.manifests()}

    def start(self, job: TakeBackup | VerifyBackup | DeleteBackup) -> None:
        """Start a job, unless the same job already runs.

        Raises:
            JobBusyError: Another job runs.
        """
        if self.running is not None:
            if self.running == job:
                return
            raise JobBusyError(f"{type(self.running).__name__} of {self.running.name} runs")
        self.running = job
        self._task = asyncio.create_task(self._run(job))

    async def close(self) -> None:
        """Cancel the job that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, job: TakeBackup | VerifyBackup | DeleteBackup) -> None:
        kind = type(job).__name__
        _log.info("job_started", job=kind, backup=job.name)
        self.failures.pop((kind, job.name), None)
        try:
            match job:
                case TakeBackup():
                    await self._take(job)
                case VerifyBackup():
                    await self._verify(job)
                case DeleteBackup():
                    await self._delete(job)
                case _:
                    assert_never(job)
            _log.info("job_completed", job=kind, backup=job.name)
        except FAILURES as problem:
            text = str(problem) or type(problem).__name__
            _log.error("job_failed", job=kind, backup=job.name, problem=text)
            attempt = job.attempt if not isinstance(job, DeleteBackup) else 0
            while len(self.failures) >= MAX_FAILURES:
                self.failures.pop(next(iter(self.failures)))
            self.failures[kind, job.name] = JobFailure(kind, job.name, attempt, text)
        finally:
            self.running = None

    async def _take(self, job: TakeBackup) -> None:
        if await self._archive.manifest(job.name) is not None:
            return
        started = self._now()
        history, chunks = await self._members.copy(job.source)
        async with contextlib.aclosing(chunks):
            measured = await self._archive.write_data(job.name, chunks)
        await self._store(
            BackupManifest(
                name=job.name,
                source=job.source,
                started=started,
                ended=self._now(),
                history=str(history),
                size=measured.size,
                sha256=measured.sha256,
                encrypted=self._archive.encrypted,
            )
        )

    async def _store(self, manifest: BackupManifest) -> None:
        await self._archive.write_manifest(manifest)
        self.manifests[manifest.name] = manifest

    async def _verify(self, job: VerifyBackup) -> None:
        manifest = await self._archive.manifest(job.name)
        if manifest is None:
            raise CatalogError(f"the target has no backup {job.name}")
        if manifest.verified:
            return
        layout = Layout(self._layout.root, self._layout.data / "verify")
        await asyncio.to_thread(_emptied, layout.data)
        try:
            position = await receive_copy(self._engine, layout, self._archive.read_data(manifest), layout.database)
            async with scratch_server(self._engine, layout) as session:
                facts = await self._engine.read(session)
                tables = await check_tables(session)
            position = position or facts.executed
            _log.info("backup_verified", backup=job.name, position=str(position), tables=tables)
            verified = {"position": str(position), "version": facts.version, "verified": self._now()}
        finally:
            await asyncio.to_thread(shutil.rmtree, layout.data, True)
        await self._store(msgspec.structs.replace(manifest, **verified))

    async def _delete(self, job: DeleteBackup) -> None:
        await self._archive.delete_backup(job.name)
        self.manifests.pop(job.name, None)
        removable = self._archive.dialect.removable(self._archive.headers, self.manifests.values())
        await self._archive.delete_segments(removable)


def _emptied(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
