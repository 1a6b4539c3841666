"""The clients of a server: how the agent ends their commits and connections."""

from __future__ import annotations

import asyncio
import contextlib

from mysqlcluster.agent.local import SERVER_ERRORS, LocalServer

__all__ = ["Clients"]

END_SECONDS = 1.0
"""Time in which commits must end after their connections were closed."""
DRAIN_POLL_SECONDS = 0.1


class Clients:
    """Ends the commits and connections of clients of one server."""

    def __init__(self, local: LocalServer) -> None:
        """Use a server."""
        self._local = local
        self._draining: asyncio.Task[None] | None = None

    @property
    def draining(self) -> bool:
        """Whether a drain is in progress or has ended."""
        return self._draining is not None

    @property
    def drained(self) -> bool:
        """Whether a drain has ended."""
        return self._draining is not None and self._draining.done()

    def drain(self, seconds: float) -> None:
        """Start a drain: report not ready, and close the remaining connections after `seconds`."""
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(seconds))

    def serve(self) -> None:
        """Cancel a drain; clients may connect again."""
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None

    async def close(self) -> None:
        """Cancel the task of a drain."""
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)

    async def end_commits(self, drain_seconds: float) -> bool:
        """Refuse writes and close connections; return whether no commit is in progress.

        Only SIGKILL of the server can end a commit that waits for an acknowledgement: a server that is shut down or
        reconfigured may report the commit as successful.
        """
        refusing = asyncio.create_task(self._refuse_writes())
        try:
            done, _ = await asyncio.wait({refusing}, timeout=drain_seconds)
            await self._close_connections()
            if not done:
                done, _ = await asyncio.wait({refusing}, timeout=END_SECONDS)
            return bool(done) and refusing.exception() is None
        finally:
            refusing.cancel()
            await asyncio.gather(refusing, return_exceptions=True)

    async def _refuse_writes(self) -> None:
        async with self._local.session(statement_seconds=3600) as session:
            await self._local.engine.refuse_writes(session)

    async def _close_connections(self) -> None:
        with contextlib.suppress(*SERVER_ERRORS):
            async with self._local.session(statement_seconds=2) as session:
                for connection in await self._local.engine.client_sessions(session):
                    await self._local.engine.kill(session, connection)

    async def _drain(self, seconds: float) -> None:
        engine = self._local.engine
        with contextlib.suppress(*SERVER_ERRORS):
            async with asyncio.timeout(seconds), self._local.session() as session:
                while await engine.client_sessions(session):  # noqa: ASYNC110 - the server sends no event for it
                    await asyncio.sleep(DRAIN_POLL_SECONDS)
        await self._close_connections()
