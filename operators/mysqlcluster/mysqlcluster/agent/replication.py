"""Replication of the local server from a source, without a loss of received transactions."""

from __future__ import annotations

import asyncio
import contextlib

from steersman.logs import get_logger

from mysqlcluster.actions import SetSource
from mysqlcluster.agent.local import LocalServer, RefusedError
from mysqlcluster.agent.session import LocalSession
from mysqlcluster.agent.settings import Secrets
from mysqlcluster.engines import ReplicationSource, ServerFacts
from mysqlcluster.observation import Role

__all__ = ["Replication"]

_log = get_logger("mysqlcluster.agent")

FENCE_APPLY_SECONDS = 1.0
"""Time in which the SQL thread may apply the relay log before `Fence` reports."""
CHANGE_APPLY_SECONDS = 1.0
"""Time in which a replica may execute its relay log before it gets another source."""
RECONNECT_APPLY_SECONDS = 10.0
"""Time in which a replica must execute its relay log before it connects to its source again."""
POLL_SECONDS = 0.02


class Replication:
    """The replication source of one server.

    A server deletes its relay log when it gets a source. The relay log may contain transactions that this member has
    acknowledged and not executed. So the source is set only if it changes, after these transactions were executed;
    otherwise the member counts as incomplete from before the change.
    """

    def __init__(self, local: LocalServer) -> None:
        """Use a server."""
        self._local = local
        self._source = ("", "")
        self._followed: SetSource | None = None
        """The last replication source that this process has set."""
        self.revision = ""
        """The revision of the passwords with which the server has connected to its source."""

    def source_name(self, host: str) -> str:
        """Return the member with a host name."""
        name, known_host = self._source
        return name if host == known_host else host.partition(".")[0]

    def forget(self) -> None:
        """Forget the source, after a promotion."""
        self._source, self._followed = ("", ""), None

    async def fence(self) -> None:
        """Stop receiving, and give the SQL thread some time to execute the relay log.

        A server that waits for disk space gets the reserve of the volume, which it notices within a minute.
        """
        self._local.reserve.release_if_full()
        await self._execute_received(FENCE_APPLY_SECONDS)

    async def follow(self, action: SetSource) -> None:
        """Replicate from the member of the action.

        Raises:
            RefusedError: This member is the primary.
        """
        local = self._local
        if local.role is Role.PRIMARY:
            raise RefusedError("this member is the primary; demote it first")
        secrets = local.secrets()
        async with local.session() as session:
            facts = await local.engine.read(session)
            if self._is_same(action, secrets, facts):
                if not facts.io_running or facts.semi_sync_replica != action.acknowledge:
                    await local.engine.receive(session, acknowledge=action.acknowledge, restart=facts.io_running)
                self._followed = action
                return
        await self._change_source(action, secrets, facts)

    def _is_same(self, action: SetSource, secrets: Secrets, facts: ServerFacts) -> bool:
        """Return whether the server replicates from this source, so that its relay log can stay."""
        known = self._followed
        return (
            known is not None
            and (known.source, known.host, known.port) == (action.source, action.host, action.port)
            and self.revision == secrets.revision
            and self._local.role is Role.REPLICA
            and facts.sql_running
            and facts.source_host == action.host
        )

    async def _change_source(self, action: SetSource, secrets: Secrets, facts: ServerFacts) -> None:
        local = self._local
        if facts.source_host and not await self._execute_received(CHANGE_APPLY_SECONDS):
            _log.warning("relay_log_discarded", source=facts.source_host, next_source=action.source)
            local.save(complete=False)
        source = ReplicationSource(
            action.host, action.port, "replication", secrets.replication_password, local.options.tls_authority
        )
        local.save(role=Role.REPLICA, has_relay_log=True)
        async with local.session() as session:
            await local.engine.set_source(session, source, acknowledge=action.acknowledge)
        local.reserve.hold()
        local.role, self._source = Role.REPLICA, (action.source, action.host)
        self._followed, self.revision = action, secrets.revision

    async def reconnect(self) -> None:
        """Connect to the source again, with the password of the mounted Secret.

        Raises:
            RefusedError: This member does not replicate, or has received transactions that it has not executed.
        """
        local, followed = self._local, self._followed
        if local.role is not Role.REPLICA or followed is None:
            raise RefusedError("this member does not replicate")
        if not await self._execute_received(RECONNECT_APPLY_SECONDS):
            async with local.session() as session:
                await local.engine.receive(session, acknowledge=followed.acknowledge, restart=False)
            raise RefusedError("received transactions are not executed yet")
        async with local.session() as session:
            facts = await local.engine.read(session)
        await self._change_source(followed, local.secrets(), facts)

    async def _execute_received(self, seconds: float) -> bool:
        """Stop the I/O thread, and return whether all received transactions are executed within a time."""
        engine = self._local.engine
        async with self._local.session() as session:
            await engine.fence(session)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    return await self._until_executed(session)
        return False

    async def _until_executed(self, session: LocalSession) -> bool:
        """Wait until the SQL thread has executed the relay log, or has stopped; return whether it has executed it."""
        engine = self._local.engine
        facts = await engine.read(session)
        while facts.sql_running and not facts.executed.contains(facts.retrieved):
            await asyncio.sleep(POLL_SECONDS)
            facts = await engine.read(session)
        return facts.executed.contains(facts.retrieved)
