"""One member: performs the actions of the operator on the local server, and reports its state."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import assert_never

import msgspec
from steersman.logs import get_logger

from mysqlcluster import actions, server_settings
from mysqlcluster.agent.accounts import accounts_of
from mysqlcluster.agent.copies import fetch_copy, receive_copy, send_copy
from mysqlcluster.agent.process import CommandError, ServerProcess, run_command
from mysqlcluster.agent.record import Record, load_record, save_record
from mysqlcluster.agent.session import DriverError, LocalSession, connect
from mysqlcluster.agent.settings import AgentSettings, Secrets, SettingsError
from mysqlcluster.agent.variables import apply_variables
from mysqlcluster.agent.versions import check_copy, is_newer, needs_upgrade, program_version, upgrade_data
from mysqlcluster.backup.agent_binlogs import log_file
from mysqlcluster.backup.binlog import BinlogError
from mysqlcluster.backup.purging import first_kept
from mysqlcluster.backup.restore import RESTORE_FAILURES, RestoreSource, restore
from mysqlcluster.engines import Engine, ReplicationSource, ServerFacts
from mysqlcluster.gtid import GtidError, GtidSet
from mysqlcluster.observation import CloneProgress, MemberState, Role

__all__ = ["Member", "RefusedError"]

_log = get_logger("mysqlcluster.agent")

START_SECONDS = 60.0
INITIALIZE_SECONDS = 300.0
FENCE_APPLY_SECONDS = 1.0
"""Time that a fence gives the applier before it reports; what is executed by then can be compared exactly."""
DEMOTE_SECONDS = 1.0
"""Time that a demotion waits for commits after it has closed the connections; then the server is killed."""
POLL_SECONDS = 0.02
DRAIN_POLL_SECONDS = 0.1

SERVER_ERRORS = (OSError, TimeoutError, DriverError)


class RefusedError(Exception):
    """The agent does not perform an action; the message says why."""


class Member:
    """The state of one agent. Actions run one at a time; reports run beside them."""

    def __init__(
        self,
        settings: AgentSettings,
        engine: Engine,
        secrets: Callable[[], Secrets],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Read the record; nothing runs yet.

        Args:
            settings: The settings of the agent.
            engine: The flavor of the server.
            secrets: Reads the secrets anew, so that rotated ones are seen.
            tls: The context that trusts the agents of other members.

        Raises:
            ValueError: The record is damaged.
        """
        self.settings = settings
        self._engine = engine
        self._secrets = secrets
        self._tls = tls
        self._layout = settings.layout
        self._layout.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._record_file = self._layout.data / "agent.json"
        self._record = load_record(self._record_file)
        self._options = settings.server_options
        self._server = self._new_server()
        self._role = Role.NONE
        self._source = ("", "")
        self._restart_required: tuple[str, ...] = ()
        self._settings_revision = server_settings.revision(settings.server_settings)
        self._settings_error = ""
        self._draining: asyncio.Task[None] | None = None
        self._unreadable = False
        """The data is of a later series than the server. It stays on disk until a copy replaces it."""
        self._copy = CloneProgress()
        self._lag: float | None = None
        self._copying: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def _new_server(self) -> ServerProcess:
        return ServerProcess(self._engine, self._layout, self._options, on_start=self._server_starts)

    def _server_starts(self) -> None:
        self._role = Role.NONE
        self._restart_required = ()
        lost = self._record.has_relay_log
        complete = self._record.complete and not lost
        self._save(starts=self._record.starts + 1, complete=complete, has_relay_log=False)

    def _save(self, **changes: object) -> None:
        fresh = msgspec.structs.replace(self._record, **changes)
        if fresh != self._record:
            save_record(self._record_file, fresh)
            self._record = fresh

    @property
    def record(self) -> Record:
        """What is on disk."""
        return self._record

    async def open(self) -> None:
        """Start the server, if the data directory holds a database that it can read.

        Data of a later series counts as none: the operator lets this member copy another one.
        """
        if not self._record.initialized:
            return
        program = await program_version(self._engine, self._layout)
        if is_newer(self._record.data_version, program):
            _log.warning("data_is_newer", data=self._record.data_version, server=program)
            self._unreadable = True
            return
        await self._server.start()
        if needs_upgrade(self._record.data_version, program):
            self._copying = asyncio.create_task(self._upgrade(program))
        else:
            self._save(data_version=program)

    async def _upgrade(self, program: str) -> None:
        """Upgrade the system tables after the first start of a later series."""
        try:
            await self._until_up()
            await upgrade_data(self._engine, self._layout, self._secrets().root_password)
        except (CommandError, *SERVER_ERRORS) as problem:
            _log.error("data_upgrade_failed", problem=str(problem) or type(problem).__name__)
            return
        _log.info("data_upgraded", before=self._record.data_version, after=program)
        self._save(data_version=program)

    async def close(self) -> None:
        """Stop copying and stop the server."""
        for task in (self._copying, self._draining):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._server.stop()

    # Reports.

    async def state(self) -> MemberState:
        """Return the report of this member."""
        started = time.monotonic()
        facts = await self._facts()
        probe_seconds = time.monotonic() - started
        record = self._record
        state = MemberState(
            self.settings.member,
            initialized=record.initialized and not self._unreadable,
            complete=record.complete and not self._unreadable,
            epoch=record.epoch,
            clone=self._copy,
            disk_used_ratio=_used_ratio(self._layout.data),
            starts=record.starts,
            accounts_revision=record.accounts_revision,
            restart_required=self._restart_required,
            settings_revision=self._settings_revision,
            settings_error=self._settings_error,
            draining=self._draining is not None,
            drained=self._draining is not None and self._draining.done(),
        )
        if facts is None:
            return state
        return msgspec.structs.replace(
            state,
            server_up=True,
            role=self._role,
            read_only=facts.read_only,
            executed=facts.executed,
            retrieved=facts.retrieved,
            committing=facts.committing,
            source=self._source_name(facts.source_host),
            io_running=facts.io_running,
            sql_running=facts.sql_running,
            io_error=facts.io_error,
            sql_error=facts.sql_error,
            semi_sync_source=facts.semi_sync_source,
            semi_sync_replica=facts.semi_sync_replica,
            ack_count=facts.ack_count,
            commits_waiting=facts.commits_waiting,
            lag_seconds=self._lag_of(facts),
            version=facts.version,
            probe_seconds=probe_seconds,
            connections=facts.connections,
            max_connections=facts.max_connections,
        )

    def _lag_of(self, facts: ServerFacts) -> float | None:
        """Servers tell no lag without their source. The last one remains true while they have a backlog."""
        if facts.lag_seconds is not None or facts.executed.contains(facts.retrieved):
            self._lag = facts.lag_seconds
        return self._lag

    async def _facts(self) -> ServerFacts | None:
        if not self._server.running:
            return None
        try:
            async with self._session(statement_seconds=2.0) as session:
                return await self._engine.read(session)
        except SERVER_ERRORS as problem:
            _log.debug("server_not_ready", problem=type(problem).__name__)
            return None

    def _source_name(self, host: str) -> str:
        name, known_host = self._source
        return name if host == known_host else host.partition(".")[0]

    @contextlib.asynccontextmanager
    async def _session(self, *, statement_seconds: float = 10.0) -> AsyncGenerator[LocalSession]:
        async with connect(
            self._layout.socket, self._secrets().root_password, statement_seconds=statement_seconds
        ) as session:
            yield session

    async def send_copy(self) -> tuple[GtidSet, AsyncIterator[bytes]]:
        """Return the history of the server and a consistent copy of it as a stream.

        Raises:
            RefusedError: The server does not run.
        """
        facts = await self._facts()
        if facts is None:
            raise RefusedError("the server does not run")
        return facts.executed, send_copy(self._engine, self._layout, self._secrets().root_password)

    async def binary_logs(self) -> tuple[int, tuple[tuple[Path, int], ...]]:
        """Return the number of starts of the server, and its binary logs with their sizes, oldest first.

        Raises:
            RefusedError: The server does not run, or its data is being replaced.
        """
        if not self._record.initialized or not self._server.running:
            raise RefusedError("the server does not run")
        try:
            async with self._session(statement_seconds=2.0) as session:
                rows = await session.run("SHOW BINARY LOGS")
        except SERVER_ERRORS as problem:
            raise RefusedError(f"the server does not answer: {problem or type(problem).__name__}") from None
        files = tuple((self._layout.database / str(row["Log_name"]), int(row["File_size"])) for row in rows)
        return self._record.starts, files

    async def _purge_binary_logs(self, action: actions.PurgeBinlogs) -> None:
        _, listed = await self.binary_logs()
        paths = [path for path, _ in listed]
        files = await asyncio.to_thread(lambda: [log_file(path) for path in paths])
        until = first_kept(files, action.held, action.keep_seconds, time.time())
        if not until:
            return
        async with self._session() as session:
            await self._engine.purge_binary_logs(session, until)
        _log.info("binary_logs_purged", until=until, reason="the archive and all members have them")

    # Actions.

    async def act(self, action: actions.AnyAction) -> MemberState:
        """Perform an action, and return the state after it.

        Raises:
            RefusedError: The action is for another member, of a lower epoch, or not possible in this state.
        """
        async with self._lock:
            if action.member != self.settings.member:
                raise RefusedError(f"this is {self.settings.member}, and the action is for {action.member}")
            if action.epoch < self._record.epoch:
                raise RefusedError(f"epoch {action.epoch} is lower than {self._record.epoch}, which is stored")
            if self._copying is not None and not self._copying.done():
                raise RefusedError("a copy or a restart is under way")
            if isinstance(action, actions.Promote) and action.epoch != self._record.epoch:
                raise RefusedError(
                    f"this member is in epoch {self._record.epoch}, not in {action.epoch}; fence it first"
                )
            self._save(epoch=action.epoch)
            _log.info("action", action=type(action).__name__, epoch=action.epoch)
            try:
                await self._perform(action)
            except (BinlogError, CommandError, GtidError, SettingsError, *SERVER_ERRORS) as problem:
                raise RefusedError(f"{type(action).__name__} failed: {problem or type(problem).__name__}") from None
            return await self.state()

    async def _perform(self, action: actions.AnyAction) -> None:
        match action:
            case actions.Initialize():
                await self._initialize()
            case actions.Clone():
                await self._start_copy(action)
            case actions.Restore():
                await self._start_restore(action)
            case actions.Fence():
                await self._fence()
            case actions.ApplyRelayLog():
                await self._with_server(self._engine.start_applier)
            case actions.Promote():
                await self._promote(action)
            case actions.Demote():
                await self._demote(action.drain_seconds)
            case actions.SetSource():
                await self._set_source(action)
            case actions.StopReplication():
                await self._with_server(self._engine.stop_replication)
                self._role = Role.NONE
            case actions.SetAckCount():
                await self._set_ack_count(action.ack_count)
            case actions.ConfirmComplete():
                await self._confirm_complete(GtidSet.parse(action.received))
            case actions.PurgeBinlogs():
                await self._purge_binary_logs(action)
            case actions.SetVariables():
                await self._set_variables(action)
            case actions.Restart():
                self._copying = asyncio.create_task(self._restart_in_background(action.reason))
            case actions.CreateAccounts():
                await self._create_accounts(action.revision)
            case actions.Drain():
                if self._draining is None:
                    self._draining = asyncio.create_task(self._drain(action.drain_seconds))
            case _:
                assert_never(action)

    async def _with_server(self, run: Callable[[LocalSession], Awaitable[None]]) -> None:
        async with self._session() as session:
            await run(session)

    async def _initialize(self) -> None:
        if self._record.initialized:
            raise RefusedError("the data directory holds a database")
        shutil.rmtree(self._layout.database, ignore_errors=True)
        self._layout.database.mkdir(mode=0o700)
        command = self._engine.initialize_command(self._layout)
        await run_command(self._engine, self._layout, command, seconds=INITIALIZE_SECONDS)
        await self._server.start()
        await self._until_up(password="")
        async with connect(self._layout.socket, "") as session:
            await self._engine.secure(session, self._secrets().root_password)
        program = await program_version(self._engine, self._layout)
        self._save(initialized=True, complete=True, data_version=program)

    async def _until_up(self, password: str | None = None) -> None:
        secret = self._secrets().root_password if password is None else password
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(*SERVER_ERRORS):
                    async with connect(self._layout.socket, secret):
                        return
                await asyncio.sleep(POLL_SECONDS)

    async def _fence(self) -> None:
        async with self._session() as session:
            await self._engine.fence(session)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FENCE_APPLY_SECONDS):
                    facts = await self._engine.read(session)
                    while facts.sql_running and not facts.executed.contains(facts.retrieved):
                        await asyncio.sleep(POLL_SECONDS)
                        facts = await self._engine.read(session)

    async def _promote(self, action: actions.Promote) -> None:
        if action.ack_count > self._engine.max_ack_count:
            most = self._engine.max_ack_count
            raise RefusedError(
                f"{self._engine.flavor} waits for at most {most} acknowledgements, not {action.ack_count}"
            )
        if not self._record.complete:
            raise RefusedError("acknowledged transactions may be missing on this member")
        async with self._session() as session:
            facts = await self._engine.read(session)
            if facts.io_running:
                raise RefusedError("replication runs; fence this member first")
            missing = facts.retrieved.subtract(facts.executed)
            if missing:
                raise RefusedError(f"{missing.count} received transactions are not executed: {str(missing)[:200]}")
            await self._engine.promote(session, action.ack_count)
            self._save(role=Role.PRIMARY, has_relay_log=False)
            self._role, self._source = Role.PRIMARY, ("", "")

    async def _set_source(self, action: actions.SetSource) -> None:
        if self._role is Role.PRIMARY:
            raise RefusedError("this member is the primary; demote it first")
        secrets = self._secrets()
        source = ReplicationSource(
            action.host, action.port, "replication", secrets.replication_password, self._options.tls_authority
        )
        self._save(role=Role.REPLICA, has_relay_log=True)
        async with self._session() as session:
            await self._engine.set_source(session, source, acknowledge=action.acknowledge)
        self._role, self._source = Role.REPLICA, (action.source, action.host)
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None

    async def _demote(self, drain_seconds: float) -> None:
        """End all commits. A commit that still waits for an acknowledgement ends with the server."""
        self._save(role=Role.NONE)
        refusing = asyncio.create_task(self._refuse_writes())
        try:
            done, _ = await asyncio.wait({refusing}, timeout=drain_seconds)
            await self._close_clients()
            if not done:
                done, _ = await asyncio.wait({refusing}, timeout=DEMOTE_SECONDS)
            failed = not done or refusing.exception() is not None
        finally:
            refusing.cancel()
            await asyncio.gather(refusing, return_exceptions=True)
        if failed:
            _log.warning("server_killed", reason="commits wait for acknowledgements")
            await self._restart(kill=True)
        self._role = Role.NONE

    async def _refuse_writes(self) -> None:
        async with self._session(statement_seconds=3600) as session:
            await self._engine.refuse_writes(session)

    async def _close_clients(self) -> None:
        with contextlib.suppress(*SERVER_ERRORS):
            async with self._session(statement_seconds=2) as session:
                for connection in await self._engine.client_sessions(session):
                    await self._engine.kill(session, connection)

    async def _drain(self, seconds: float) -> None:
        with contextlib.suppress(*SERVER_ERRORS):
            async with asyncio.timeout(seconds), self._session() as session:
                while await self._engine.client_sessions(session):  # noqa: ASYNC110 - the server has no event for it
                    await asyncio.sleep(DRAIN_POLL_SECONDS)
        await self._close_clients()

    async def _set_ack_count(self, ack_count: int) -> None:
        if self._role is not Role.PRIMARY:
            raise RefusedError("this member is not the primary")
        if ack_count > self._engine.max_ack_count:
            raise RefusedError(f"{self._engine.flavor} waits for at most {self._engine.max_ack_count} acknowledgements")
        async with self._session() as session:
            await self._engine.set_ack_count(session, ack_count)

    async def _confirm_complete(self, wanted: GtidSet) -> None:
        async with self._session() as session:
            facts = await self._engine.read(session)
        missing = wanted.subtract(facts.executed.union(facts.retrieved))
        if missing:
            raise RefusedError(f"{missing.count} transactions are missing: {str(missing)[:200]}")
        self._save(complete=True)

    async def _set_variables(self, action: actions.SetVariables) -> None:
        """Keep what the server refuses out of its configuration: it would not start with it.

        A server that does not answer takes the settings with its next start: those before may be why it does not start.
        """
        self._settings_error = ""
        waiting: tuple[str, ...] = ()
        try:
            if await self._facts() is not None:
                async with self._session() as session:
                    waiting = await apply_variables(self._engine, session, self._options.settings, action.values)
        except (DriverError, ValueError) as problem:
            self._settings_error = str(problem)
            self._settings_revision = action.revision
            return
        self._options = msgspec.structs.replace(self._options, settings=dict(action.values))
        self._server.options = self._options
        self._settings_revision = action.revision
        self._restart_required = tuple(sorted({*self._restart_required, *waiting}))

    async def _restart_in_background(self, reason: str) -> None:
        _log.info("server_restart", reason=reason)
        try:
            await self._restart()
        except SERVER_ERRORS as problem:
            _log.error("server_restart_failed", problem=str(problem) or type(problem).__name__)

    async def _restart(self, *, kill: bool = False) -> None:
        await self._server.stop(kill=kill)
        await self._server.start()
        await self._until_up()

    async def _create_accounts(self, revision: str) -> None:
        secrets = self._secrets()
        if secrets.revision != revision:
            raise RefusedError(f"the mounted Secret has revision {secrets.revision!r}, not {revision!r}")
        if self._role is not Role.PRIMARY:
            raise RefusedError("this member is not the primary")
        accounts = accounts_of(self._engine, secrets, require_tls=self._options.tls_authority is not None)
        async with self._session() as session:
            for account in accounts:
                await self._engine.apply_account(session, account)
        self._save(accounts_revision=revision)

    # Copies.

    async def _start_copy(self, action: actions.Clone) -> None:
        if self._role is Role.PRIMARY:
            raise RefusedError("this member is the primary; demote it first")
        url = self.settings.url_of(action.source)
        self._save(initialized=False, complete=False, has_relay_log=False, role=Role.NONE)
        self._copy = CloneProgress(action.source, running=True)
        self._copying = asyncio.create_task(self._receive(action, url))

    async def _receive(self, action: actions.Clone, url: str) -> None:
        incoming = self._layout.data / "incoming"
        error = ""
        try:
            await self._server.stop(kill=True)
            history, chunks = await fetch_copy(url, self._secrets().agent_token, self._tls)
            position = await receive_copy(self._engine, self._layout, chunks, incoming)
            program = await program_version(self._engine, self._layout)
            data = self._engine.version_of(incoming)
            check_copy(data, program)
            self._replace_database(incoming, keep=f"kept-{action.epoch}" if action.keep_copy else "")
            await self._server.start()
            await self._until_up()
            async with self._session() as session:
                await self._engine.set_executed(session, history, position)
                facts = await self._engine.read(session)
            if needs_upgrade(data, program):
                await upgrade_data(self._engine, self._layout, self._secrets().root_password)
            complete = facts.executed.contains(GtidSet.parse(action.required))
            self._unreadable = False
            self._save(initialized=True, complete=complete, data_version=program)
        except (CommandError, SettingsError, ValueError, *SERVER_ERRORS) as problem:
            error = str(problem) or type(problem).__name__
            _log.error("copy_failed", source=action.source, problem=error)
            await self._server.stop(kill=True)
        finally:
            await asyncio.to_thread(shutil.rmtree, incoming, True)
            self._copy = CloneProgress(action.source, running=False, error=error)

    # Restores.

    async def _start_restore(self, action: actions.Restore) -> None:
        if self._record.initialized:
            raise RefusedError("the data directory holds a database")
        if not self.settings.archiver_url:
            raise RefusedError("the settings have no archiverUrl")
        self._copy = CloneProgress(f"backup {action.backup}", running=True, error=self._copy.error)
        self._copying = asyncio.create_task(self._restore(action))

    async def _restore(self, action: actions.Restore) -> None:
        error = ""
        try:
            await self._server.stop(kill=True)
            source = RestoreSource(self.settings.archiver_url, lambda: self._secrets().agent_token, self._tls)
            password = self._secrets().root_password
            await restore(source, action, self._engine, self._layout, self._server, self._options, password)
            await self._server.start()
            await self._until_up()
            self._save(initialized=True, complete=True)
        except (*RESTORE_FAILURES, SettingsError) as problem:
            error = str(problem) or type(problem).__name__
            _log.error("restore_failed", backup=action.backup, problem=error)
            await self._server.stop(kill=True)
        finally:
            self._copy = CloneProgress(f"backup {action.backup}", running=False, error=error)

    def _replace_database(self, incoming: Path, keep: str) -> None:
        database = self._layout.database
        if keep and database.exists():
            shutil.rmtree(self._layout.data / keep, ignore_errors=True)
            os.replace(database, self._layout.data / keep)
        shutil.rmtree(database, ignore_errors=True)
        os.replace(incoming, database)


def _used_ratio(directory: Path) -> float:
    usage = os.statvfs(directory)
    return 1 - usage.f_bavail / usage.f_blocks if usage.f_blocks else 0.0
