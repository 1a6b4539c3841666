"""The binary logs of a member: a list for archivers, and the deletion of files that are archived and replicated."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from steersman.logs import get_logger

from mysqlcluster import actions
from mysqlcluster.agent.local import SERVER_ERRORS, LocalServer, RefusedError
from mysqlcluster.backup.agent_binlogs import log_file
from mysqlcluster.backup.purging import first_kept

__all__ = ["list_binary_logs", "purge_binary_logs"]

_log = get_logger("mysqlcluster.agent")


async def list_binary_logs(local: LocalServer) -> tuple[int, tuple[tuple[Path, int], ...]]:
    """Return the number of starts of the server, and its binary logs with their sizes, oldest first.

    Raises:
        RefusedError: The server does not run, or its data is being replaced.
    """
    if not local.record.initialized or not local.process.running:
        raise RefusedError("the server does not run")
    try:
        async with local.session(statement_seconds=2.0) as session:
            rows = await session.run("SHOW BINARY LOGS")
    except SERVER_ERRORS as problem:
        raise RefusedError(f"the server does not answer: {problem or type(problem).__name__}") from None
    files = tuple((local.layout.database / str(row["Log_name"]), int(row["File_size"])) for row in rows)
    return local.record.starts, files


async def purge_binary_logs(local: LocalServer, action: actions.PurgeBinlogs) -> None:
    """Delete the binary logs whose transactions the archive and all members have, according to the action.

    Raises:
        RefusedError: The server does not run.
        BinlogError: A file cannot be read.
    """
    _, listed = await list_binary_logs(local)
    paths = [path for path, _ in listed]
    files = await asyncio.to_thread(lambda: [log_file(path) for path in paths])
    until = first_kept(files, action.held, action.keep_seconds, time.time())
    if not until:
        return
    async with local.session() as session:
        await local.engine.purge_binary_logs(session, until)
    _log.info("binary_logs_purged", until=until, reason="the archive and all members have them")
