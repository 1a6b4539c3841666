"""The data of a member: a new database, a copy of another member, a restore, an upgrade of the system tables."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

from steersman.logs import get_logger

from mysqlcluster import actions
from mysqlcluster.agent.copies import fetch_copy, receive_copy, send_copy
from mysqlcluster.agent.local import SERVER_ERRORS, LocalServer, RefusedError
from mysqlcluster.agent.process import CommandError, run_command
from mysqlcluster.agent.settings import SettingsError
from mysqlcluster.agent.versions import check_copy, is_newer, needs_upgrade, program_version, upgrade_data
from mysqlcluster.backup.restore import RESTORE_FAILURES, RestoreSource, restore
from mysqlcluster.gtid import GtidSet
from mysqlcluster.observation import CloneProgress, Role

__all__ = ["Data"]

_log = get_logger("mysqlcluster.agent")

INITIALIZE_SECONDS = 300.0


class Data:
    """Fills and replaces the data directory; one such task runs at a time."""

    def __init__(self, local: LocalServer) -> None:
        """Use a server."""
        self._local = local
        self.progress = CloneProgress()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether the server is being stopped, started or filled."""
        return self._task is not None and not self._task.done()

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Run a task that stops or starts the server in the background; actions are refused until it has ended."""
        self._task = asyncio.create_task(work)

    async def close(self) -> None:
        """Cancel the task that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def open(self) -> None:
        """Start the server, if the data directory contains a database that the server can read.

        Data of a later series counts as uninitialized: then the operator sends this member a `Clone`.
        """
        local = self._local
        await asyncio.to_thread(_remove_scratch, local.layout.data)
        if not local.record.initialized:
            return
        program = await program_version(local.engine, local.layout)
        if is_newer(local.record.data_version, program):
            _log.warning("data_is_newer", data=local.record.data_version, server=program)
            local.unreadable = True
            return
        await local.process.start()
        if needs_upgrade(local.record.data_version, program):
            self.run(self._upgrade(program))
        else:
            local.save(data_version=program)

    async def _upgrade(self, program: str) -> None:
        """Upgrade the system tables after the first start of a later series."""
        local = self._local
        try:
            await local.until_up()
            await upgrade_data(local.engine, local.layout, local.secrets().root_password)
        except (CommandError, *SERVER_ERRORS) as problem:
            _log.error("data_upgrade_failed", problem=str(problem) or type(problem).__name__)
            return
        _log.info("data_upgraded", before=local.record.data_version, after=program)
        local.save(data_version=program)

    async def initialize(self) -> None:
        """Create a database, and start the server with it."""
        local = self._local
        if local.record.initialized:
            raise RefusedError("the data directory holds a database")
        shutil.rmtree(local.layout.database, ignore_errors=True)
        local.layout.database.mkdir(mode=0o700)
        command = local.engine.initialize_command(local.layout)
        await run_command(local.engine, local.layout, command, seconds=INITIALIZE_SECONDS)
        await local.process.start()
        await local.until_up()
        async with local.session() as session:
            await local.engine.secure(session)
        program = await program_version(local.engine, local.layout)
        local.save(initialized=True, complete=True, data_version=program)

    # Copies.

    async def send(self) -> tuple[GtidSet, AsyncIterator[bytes]]:
        """Return the GTID history of the server and the stream of a consistent copy; raises `RefusedError`."""
        local = self._local
        facts = await local.facts()
        if facts is None:
            raise RefusedError("the server does not run")
        return facts.executed, send_copy(local.engine, local.layout, local.secrets().root_password)

    def copy(self, action: actions.Clone) -> None:
        """Start to replace the data with a copy of another member.

        Raises:
            RefusedError: This member is the primary.
            SettingsError: The other member has no URL.
        """
        local = self._local
        if local.role is Role.PRIMARY:
            raise RefusedError("this member is the primary; demote it first")
        url = local.settings.url_of(action.source)
        local.save(initialized=False, complete=False, has_relay_log=False, role=Role.NONE)
        self.progress = CloneProgress(action.source, running=True)
        self.run(self._receive(action, url))

    async def _receive(self, action: actions.Clone, url: str) -> None:
        local = self._local
        incoming = local.layout.data / "incoming"
        error = ""
        try:
            await local.process.stop(kill=True)
            history, chunks = await fetch_copy(url, local.secrets().agent_token, local.certificates.client)
            position = await receive_copy(local.engine, local.layout, chunks, incoming)
            program = await program_version(local.engine, local.layout)
            data = local.engine.version_of(incoming)
            check_copy(data, program)
            self._replace_database(incoming, keep=f"kept-{action.epoch}" if action.keep_copy else "")
            await local.process.start()
            await local.until_up()
            async with local.session() as session:
                await local.engine.set_executed(session, history, position)
                facts = await local.engine.read(session)
            if needs_upgrade(data, program):
                await upgrade_data(local.engine, local.layout, local.secrets().root_password)
            complete = facts.executed.contains(GtidSet.parse(action.required))
            local.unreadable = False
            local.save(initialized=True, complete=complete, data_version=program)
        except (CommandError, SettingsError, ValueError, *SERVER_ERRORS) as problem:
            error = str(problem) or type(problem).__name__
            _log.error("copy_failed", source=action.source, problem=error)
            await local.process.stop(kill=True)
        finally:
            await asyncio.to_thread(shutil.rmtree, incoming, True)
            self.progress = CloneProgress(action.source, running=False, error=error)

    def _replace_database(self, incoming: Path, keep: str) -> None:
        database, data = self._local.layout.database, self._local.layout.data
        if keep and database.exists():
            shutil.rmtree(data / keep, ignore_errors=True)
            os.replace(database, data / keep)
        shutil.rmtree(database, ignore_errors=True)
        os.replace(incoming, database)

    # Restores.

    def restore(self, action: actions.Restore) -> None:
        """Start to fill an empty data directory from the archive; raises `RefusedError`."""
        local = self._local
        if local.record.initialized:
            raise RefusedError("the data directory holds a database")
        if not local.settings.archiver_url:
            raise RefusedError("the settings have no archiverUrl")
        self.progress = CloneProgress(f"backup {action.backup}", running=True, error=self.progress.error)
        self.run(self._restore(action))

    async def _restore(self, action: actions.Restore) -> None:
        local = self._local
        error = ""
        try:
            await local.process.stop(kill=True)
            source = RestoreSource(
                local.settings.archiver_url, lambda: local.secrets().agent_token, local.certificates.client
            )
            password = local.secrets().root_password
            await restore(source, action, local.engine, local.layout, local.process, local.options, password)
            await local.process.start()
            await local.until_up()
            local.save(initialized=True, complete=True)
        except (*RESTORE_FAILURES, SettingsError) as problem:
            error = str(problem) or type(problem).__name__
            _log.error("restore_failed", backup=action.backup, problem=error)
            await local.process.stop(kill=True)
        finally:
            self.progress = CloneProgress(f"backup {action.backup}", running=False, error=error)


def _remove_scratch(data: Path) -> None:
    """Remove the temporary files of copies that a killed agent was sending."""
    for directory in data.glob("copy-*"):
        shutil.rmtree(directory, ignore_errors=True)
