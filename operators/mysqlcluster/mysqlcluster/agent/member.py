"""One member: performs the actions of the operator on the local server, and reports its state."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import assert_never

import msgspec
from steersman.logs import get_logger

from mysqlcluster import actions, server_settings
from mysqlcluster.agent.accounts import accounts_of
from mysqlcluster.agent.binlogs import list_binary_logs, purge_binary_logs
from mysqlcluster.agent.certificate_watch import CertificateWatch
from mysqlcluster.agent.clients import Clients
from mysqlcluster.agent.data import Data
from mysqlcluster.agent.local import SERVER_ERRORS, LocalServer, RefusedError
from mysqlcluster.agent.process import CommandError
from mysqlcluster.agent.record import Record
from mysqlcluster.agent.replication import Replication
from mysqlcluster.agent.session import DriverError, LocalSession
from mysqlcluster.agent.settings import AgentSettings, Secrets, SettingsError
from mysqlcluster.agent.tls import Certificates
from mysqlcluster.agent.variables import apply_variables
from mysqlcluster.backup.binlog import BinlogError
from mysqlcluster.engines import Engine, ServerFacts
from mysqlcluster.gtid import GtidError, GtidSet
from mysqlcluster.observation import MemberState, Role

__all__ = ["Member"]

_log = get_logger("mysqlcluster.agent")

STOP_DRAIN_SECONDS = 1.0
"""Time in which commits must end when the agent of a primary stops."""


class Member:
    """The state of one agent. Actions run one at a time; reports run concurrently with them."""

    def __init__(
        self,
        settings: AgentSettings,
        engine: Engine,
        secrets: Callable[[], Secrets],
        certificates: Certificates,
    ) -> None:
        """Read the record, and start nothing.

        Args:
            settings: The settings of the agent.
            engine: The flavor of the server.
            secrets: Reads the secrets at each call, so that rotated secrets take effect.
            certificates: The certificates of the cluster.

        Raises:
            ValueError: The record is damaged.
        """
        self.settings = settings
        self._local = LocalServer(settings, engine, secrets, certificates)
        self._certificates = CertificateWatch(self._local)
        self._data = Data(self._local)
        self._clients = Clients(self._local)
        self._replication = Replication(self._local)
        self._settings_revision = server_settings.revision(settings.server_settings)
        self._settings_error = ""
        self._lag: float | None = None
        self._waiting: tuple[GtidSet, GtidSet] | None = None
        """The transactions of the primary while commits wait."""
        self._waiting_since = 0.0
        self._lock = asyncio.Lock()

    @property
    def record(self) -> Record:
        """The record on disk."""
        return self._local.record

    async def open(self) -> None:
        """Start the server, if the data directory contains a database that the server can read."""
        self._certificates.start()
        await self._data.open()

    async def close(self) -> None:
        """Cancel running tasks, and stop the server.

        Commits that wait for acknowledgements are ended before: a server that is shut down may report them as
        successful.
        """
        await self._certificates.close()
        await self._data.close()
        await self._clients.close()
        ended = self._local.role is not Role.PRIMARY or await self._clients.end_commits(STOP_DRAIN_SECONDS)
        if not ended:
            _log.warning("server_killed", reason="commits wait for acknowledgements")
        await self._local.process.stop(kill=not ended)

    # Reports.

    async def state(self) -> MemberState:
        """Return the report of this member."""
        started = time.monotonic()
        facts = await self._local.facts()
        probe_seconds = time.monotonic() - started
        record = self._local.record
        state = MemberState(
            self.settings.member,
            initialized=record.initialized and not self._local.unreadable,
            complete=record.complete and not self._local.unreadable,
            epoch=record.epoch,
            clone=self._data.progress,
            disk_used_ratio=_used_ratio(self._local.layout.data),
            starts=record.starts,
            accounts_revision=record.accounts_revision,
            replication_revision=self._replication.revision,
            restart_required=self._local.restart_required,
            settings_revision=self._settings_revision,
            settings_error=self._settings_error,
            draining=self._clients.draining,
            drained=self._clients.drained,
            tls_revision=self._local.tls_revision,
            token_revision=self._local.secrets().token_revision,
        )
        if facts is None:
            return state
        return msgspec.structs.replace(
            state,
            server_up=True,
            role=self._local.role,
            read_only=facts.read_only,
            executed=facts.executed,
            retrieved=facts.retrieved,
            committing=facts.committing,
            source=self._replication.source_name(facts.source_host),
            io_running=facts.io_running,
            sql_running=facts.sql_running,
            io_error=facts.io_error,
            sql_error=facts.sql_error,
            semi_sync_source=facts.semi_sync_source,
            semi_sync_replica=facts.semi_sync_replica,
            ack_count=facts.ack_count,
            commits_waiting=facts.commits_waiting,
            commit_seconds=self._commit_seconds(facts, started),
            lag_seconds=self._lag_of(facts),
            version=facts.version,
            probe_seconds=probe_seconds,
            connections=facts.connections,
            max_connections=facts.max_connections,
        )

    def _lag_of(self, facts: ServerFacts) -> float | None:
        """Return the lag, or the last known lag of a server with a backlog and without its source."""
        if facts.lag_seconds is not None or facts.executed.contains(facts.retrieved):
            self._lag = facts.lag_seconds
        return self._lag

    def _commit_seconds(self, facts: ServerFacts, now: float) -> float:
        """Return the time for which commits wait and no transaction was added."""
        waiting = (facts.executed, facts.committing) if facts.commits_waiting else None
        if waiting is None or waiting != self._waiting:
            self._waiting, self._waiting_since = waiting, now
        return now - self._waiting_since

    async def send_copy(self) -> tuple[GtidSet, AsyncIterator[bytes]]:
        """Return the GTID history of the server and the stream of a consistent copy.

        Raises:
            RefusedError: The server does not run.
        """
        return await self._data.send()

    async def binary_logs(self) -> tuple[int, tuple[tuple[Path, int], ...]]:
        """Return the number of starts of the server, and its binary logs with their sizes, oldest first.

        Raises:
            RefusedError: The server does not run, or its data is being replaced.
        """
        return await list_binary_logs(self._local)

    # Actions.

    async def act(self, action: actions.AnyAction) -> MemberState:
        """Perform an action, and return the state after it.

        Raises:
            RefusedError: The action is for another member, has a lower epoch, or is not possible in this state.
        """
        async with self._lock:
            epoch = self._local.record.epoch
            if action.member != self.settings.member:
                raise RefusedError(f"this is {self.settings.member}, and the action is for {action.member}")
            if action.epoch < epoch:
                raise RefusedError(f"epoch {action.epoch} is lower than {epoch}, which is stored")
            if self._data.busy:
                raise RefusedError("a copy or a restart is under way")
            if isinstance(action, actions.Promote) and action.epoch != epoch:
                raise RefusedError(f"this member is in epoch {epoch}, not in {action.epoch}; fence it first")
            try:
                self._local.save(epoch=action.epoch)
                _log.info("action", action=type(action).__name__, epoch=action.epoch)
                await self._perform(action)
            except (BinlogError, CommandError, GtidError, SettingsError, *SERVER_ERRORS) as problem:
                raise RefusedError(
                    f"{type(action).__name__} failed: {str(problem) or type(problem).__name__}"
                ) from None
            return await self.state()

    async def _perform(self, action: actions.AnyAction) -> None:
        engine = self._local.engine
        match action:
            case actions.Initialize():
                await self._data.initialize()
            case actions.Clone():
                self._data.copy(action)
            case actions.Restore():
                self._data.restore(action)
            case actions.Fence():
                await self._replication.fence()
            case actions.ApplyRelayLog():
                await self._with_server(engine.start_applier)
            case actions.Promote():
                await self._promote(action)
            case actions.Demote():
                await self._demote(action.drain_seconds)
            case actions.SetSource():
                await self._replication.follow(action)
                self._clients.serve()
            case actions.StopReplication():
                await self._with_server(engine.stop_replication)
                self._local.role = Role.NONE
            case actions.SetAckCount():
                await self._set_ack_count(action.ack_count)
            case actions.ConfirmComplete():
                await self._confirm_complete(GtidSet.parse(action.received))
            case actions.PurgeBinlogs():
                await purge_binary_logs(self._local, action)
            case actions.SetVariables():
                await self._set_variables(action)
            case actions.Restart():
                self._data.run(self._restart(action.reason))
            case actions.CreateAccounts():
                await self._create_accounts(action)
            case actions.Reconnect():
                self._check_revision(action.revision)
                await self._replication.reconnect()
            case actions.Drain():
                self._clients.drain(action.drain_seconds)
            case _:
                assert_never(action)

    async def _with_server(self, run: Callable[[LocalSession], Awaitable[None]]) -> None:
        async with self._local.session() as session:
            await run(session)

    def _check_ack_count(self, ack_count: int) -> None:
        engine = self._local.engine
        if ack_count > engine.max_ack_count:
            raise RefusedError(f"{engine.flavor} waits for at most {engine.max_ack_count} acknowledgements")

    async def _promote(self, action: actions.Promote) -> None:
        local = self._local
        self._check_ack_count(action.ack_count)
        if not local.record.complete:
            raise RefusedError("acknowledged transactions may be missing on this member")
        async with local.session() as session:
            facts = await local.engine.read(session)
            if facts.io_running:
                raise RefusedError("replication runs; fence this member first")
            missing = facts.retrieved.subtract(facts.executed)
            if missing:
                raise RefusedError(f"{missing.count} received transactions are not executed: {str(missing)[:200]}")
            await local.engine.promote(session, action.ack_count)
            local.save(role=Role.PRIMARY, has_relay_log=False)
            local.role = Role.PRIMARY
            self._replication.forget()

    async def _demote(self, drain_seconds: float) -> None:
        """End all commits, and restart the server if a commit still waits for an acknowledgement."""
        self._local.save(role=Role.NONE)
        if not await self._clients.end_commits(drain_seconds):
            _log.warning("server_killed", reason="commits wait for acknowledgements")
            await self._local.restart(kill=True)
        self._local.role = Role.NONE

    async def _set_ack_count(self, ack_count: int) -> None:
        if self._local.role is not Role.PRIMARY:
            raise RefusedError("this member is not the primary")
        self._check_ack_count(ack_count)
        async with self._local.session() as session:
            await self._local.engine.set_ack_count(session, ack_count)

    async def _confirm_complete(self, wanted: GtidSet) -> None:
        async with self._local.session() as session:
            facts = await self._local.engine.read(session)
        missing = wanted.subtract(facts.executed.union(facts.retrieved))
        if missing:
            raise RefusedError(f"{missing.count} transactions are missing: {str(missing)[:200]}")
        self._local.save(complete=True)

    async def _set_variables(self, action: actions.SetVariables) -> None:
        """Apply variables and store them for the next start, unless the server refuses one: it would not start with it.

        If the server does not answer, it gets the variables at its next start: the previous ones may prevent the start.
        """
        local = self._local
        self._settings_error = ""
        waiting: tuple[str, ...] = ()
        try:
            if await local.facts() is not None:
                async with local.session() as session:
                    waiting = await apply_variables(local.engine, session, local.options.settings, action.values)
        except (DriverError, ValueError) as problem:
            self._settings_error = str(problem)
            self._settings_revision = action.revision
            return
        local.process.options = msgspec.structs.replace(local.options, settings=dict(action.values))
        self._settings_revision = action.revision
        local.restart_required = tuple(sorted({*local.restart_required, *waiting}))

    async def _restart(self, reason: str) -> None:
        _log.info("server_restart", reason=reason)
        try:
            await self._local.restart()
        except SERVER_ERRORS as problem:
            _log.error("server_restart_failed", problem=str(problem) or type(problem).__name__)

    def _check_revision(self, revision: str) -> Secrets:
        secrets = self._local.secrets()
        if secrets.revision != revision:
            raise RefusedError(f"the mounted Secret has revision {secrets.revision!r}, not {revision!r}")
        return secrets

    async def _create_accounts(self, action: actions.CreateAccounts) -> None:
        local = self._local
        secrets = self._check_revision(action.revision)
        if local.role is not Role.PRIMARY:
            raise RefusedError("this member is not the primary")
        accounts = accounts_of(local.engine, secrets, require_tls=local.options.tls_authority is not None)
        async with local.session() as session:
            for account in accounts:
                await local.engine.apply_account(session, account)
                if action.retire_old:
                    await local.engine.retire_password(session, account)
        local.save(accounts_revision=action.revision)


def _used_ratio(directory: Path) -> float:
    usage = os.statvfs(directory)
    return 1 - usage.f_bavail / usage.f_blocks if usage.f_blocks else 0.0
