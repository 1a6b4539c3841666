"""Loads changed certificates into the agent and its server, without closing connections."""

from __future__ import annotations

import asyncio

from steersman.logs import get_logger

from mysqlcluster.agent.local import SERVER_ERRORS, LocalServer

__all__ = ["CertificateWatch"]

_log = get_logger("mysqlcluster.agent")

POLL_SECONDS = 2.0


class CertificateWatch:
    """Compares the files of the mounted Secret with the certificates in use."""

    def __init__(self, local: LocalServer) -> None:
        """Use a server; `start` begins to compare."""
        self._local = local
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to compare."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._compare()
            except (*SERVER_ERRORS,) as problem:
                _log.warning("certificate_reload_failed", problem=str(problem) or type(problem).__name__)

    async def _compare(self) -> None:
        local = self._local
        local.certificates.reload()
        revision = local.certificates.revision
        if not local.process.running or local.tls_revision == revision:
            return
        async with local.session() as session:
            await local.engine.reload_certificates(session)
        local.tls_revision = revision
        _log.info("certificate_reloaded", revision=revision, reason="the Secret has changed")
