"""Keeps the cleanup program of a node running, and starts it again if it is killed."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.process import cleanup

__all__ = ["CleanupGuard"]

_RESTART_SECONDS: Final = 0.1
_log = get_logger("nodes")


class CleanupGuard:
    """The cleanup program of one node; it acts when this process ends, or at `close`.

    Args:
        mark: The mark in the environment of the node's processes.
        groups: The control groups of the node.
        temporary: The directory that is deleted with the node; none if `None`.
    """

    def __init__(self, mark: str, groups: list[str], temporary: Path | None = None) -> None:
        self._mark = mark
        self._groups = groups
        self._temporary = str(temporary) if temporary is not None else ""
        self.process: asyncio.subprocess.Process | None = None
        """The running program."""
        self.restarted = asyncio.Event()
        """Set when the program has been started again."""
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the program."""
        self.process = await self._spawn()
        self._watcher = asyncio.create_task(self._restart(), name="cleanup program")

    async def close(self) -> None:
        """Kill the remaining processes of the node, delete its control groups and its temporary directory."""
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        process, self.process = self.process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        if await process.wait():
            await asyncio.to_thread(cleanup.clean, self._mark, self._groups, self._temporary)

    async def _spawn(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", cleanup.__file__, self._mark, self._temporary, *self._groups),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def _restart(self) -> None:
        while self.process is not None:
            code = await self.process.wait()
            _log.warning("cleanup_program_ended", exit_code=code)
            await asyncio.sleep(_RESTART_SECONDS)
            self.process = await self._spawn()
            self.restarted.set()
