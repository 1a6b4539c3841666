"""The restore in the agent: a full copy from the archiver, and the later transactions up to a point.

An interrupted restore starts again, because the member is not initialized until the restore has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from steersman.logs import get_logger

from mysqlcluster.actions import Restore
from mysqlcluster.agent.copies import receive_copy
from mysqlcluster.agent.process import CommandError, ServerProcess, command_environment, tail
from mysqlcluster.agent.session import DriverError
from mysqlcluster.backup.binlog import MAGIC, BinlogError, begins_file, events_of, gtid_of, is_outside
from mysqlcluster.backup.dialects import AnyReplay, dialect_of
from mysqlcluster.backup.plan import PlanError, PlannedSegment, RestorePlan
from mysqlcluster.backup.scratch import started
from mysqlcluster.engines import Engine, Layout, ServerOptions
from mysqlcluster.gtid import GtidSet

__all__ = ["RESTORE_FAILURES", "RestoreSource", "restore"]

_log = get_logger("mysqlcluster.agent")

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 60.0
MAX_PLAN_BYTES = 16 << 20
CHUNK_BYTES = 1 << 18
BATCH_BYTES = 64 << 20
"""Transactions are executed when they reach this size on disk, so that a long archive needs little space."""
REPLAY_SECONDS = 6 * 3600.0

T = TypeVar("T")


class RestoreError(RuntimeError):
    """The archiver cannot restore to the point, or ended its response early; the message is its reason."""


RESTORE_FAILURES = (
    RestoreError,
    PlanError,
    BinlogError,
    CommandError,
    DriverError,
    OSError,
    TimeoutError,
    ValueError,
)


class RestoreSource:
    """Requests of an agent to the archiver of its cluster."""

    def __init__(self, url: str, token: Callable[[], str], tls: ssl.SSLContext | None) -> None:
        """Store the arguments; they are those of `Members`."""
        self._url = url
        self._token = token
        self._tls = tls

    async def plan(self, action: Restore) -> RestorePlan:
        """Return the plan of the restore.

        Raises:
            RestoreError: The archive cannot restore the point, or the archiver does not answer.
        """
        content = bytearray()
        query = {"backup": action.backup, "time": action.until_time, "gtid": action.until_gtid}
        async for chunk in self._read("/v1/source/plan", query):
            content += chunk
            if len(content) > MAX_PLAN_BYTES:
                raise RestoreError(f"the plan is larger than {MAX_PLAN_BYTES} bytes")
        return msgspec.json.decode(content, type=RestorePlan)

    def data(self, name: str) -> AsyncGenerator[bytes]:
        """Yield a full copy; raises `RestoreError`."""
        return self._read(f"/v1/source/backups/{name}")

    def segment(self, number: int) -> AsyncGenerator[bytes]:
        """Yield the events of a segment; raises `RestoreError`."""
        return self._read(f"/v1/source/segments/{number}")

    async def _read(self, path: str, query: dict[str, str] | None = None) -> AsyncGenerator[bytes]:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)
        headers = {"Authorization": f"Bearer {self._token()}"}
        tls = self._tls if self._tls is not None else True
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self._url + path, params=query, headers=headers, ssl=tls) as response,
            ):
                if response.status != 200:
                    raise RestoreError(_reason(response.status, await response.content.read(4000)))
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    yield chunk
        except (TimeoutError, OSError, aiohttp.ClientError) as problem:
            raise RestoreError(f"the archiver did not send {path}: {problem or type(problem).__name__}") from None


def _reason(status: int, content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=dict[str, str])["error"]
    except (msgspec.DecodeError, KeyError):
        return f"the archiver answered with status {status}"


async def restore(
    source: RestoreSource,
    action: Restore,
    engine: Engine,
    layout: Layout,
    server: ServerProcess,
    options: ServerOptions,
    password: str,
) -> None:
    """Fill the data directory of a stopped server; the server is also stopped at the end.

    Args:
        source: The archiver.
        action: The action with the backup and the point.
        engine: The flavor of the server.
        layout: Its directories.
        server: The server, which is started on the copy while transactions are replayed.
        options: The settings of the server.
        password: The new password of the local administrator.

    Raises:
        RESTORE_FAILURES: The restore failed; the data directory must be discarded.
    """
    incoming = layout.data / "incoming"
    try:
        made = await source.plan(action)
        _log.info("restore_started", backup=made.backup.name, segments=len(made.segments))
        position = await receive_copy(engine, layout, source.data(made.backup.name), incoming)
        await asyncio.to_thread(shutil.rmtree, layout.database, True)
        os.replace(incoming, layout.database)
        async with started(engine, server, layout, options, password) as session:
            await engine.set_executed(session, GtidSet.parse(made.backup.history), position)
            if made.segments:
                incoming.mkdir(mode=0o700)
                await engine.accept_replay(session)
                # An interrupted restore starts again, so that single commits need not be durable.
                await session.run("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
                await session.run("SET GLOBAL sync_binlog = 0")
                await _replay(source, made, engine, layout, incoming, password)
        await server.stop()
        _log.info("restore_completed", backup=made.backup.name)
    finally:
        await asyncio.to_thread(shutil.rmtree, incoming, True)


async def _replay(
    source: RestoreSource, made: RestorePlan, engine: Engine, layout: Layout, directory: Path, password: str
) -> None:
    replay = dialect_of(engine.flavor).replay(made)
    client = directory / "client.cnf"
    client.touch(mode=0o600)
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    client.write_text(f'[client]\nuser = root\npassword = "{escaped}"\n')
    files: list[Path] = []
    for segment in made.segments:
        file = directory / f"{segment.number:012d}"
        if await _select(replay, segment, source, file):
            files.append(file)
        if replay.done:
            break
        if sum(each.stat().st_size for each in files) >= BATCH_BYTES:
            await _execute(engine, layout, client, files)
            files = []
    await _execute(engine, layout, client, files)
    replay.check_reached()


async def _select(replay: AnyReplay, segment: PlannedSegment, source: RestoreSource, file: Path) -> bool:
    """Write the transactions to restore of a segment as a binary log; return whether there are any."""
    taken, any_taken = False, False
    async with contextlib.aclosing(source.segment(segment.number)) as chunks:
        with await asyncio.to_thread(open, file, "wb") as out:
            out.write(MAGIC)
            async for event in events_of(chunks, magic=True):
                if begins_file(event):
                    out.write(event.data)
                    continue
                transaction = gtid_of(event)
                if transaction is not None:
                    taken = replay.takes(segment, transaction)
                    any_taken = any_taken or taken
                if replay.done:
                    break
                if taken and not is_outside(event):
                    out.write(event.data)
    return any_taken


async def _execute(engine: Engine, layout: Layout, client: Path, files: list[Path]) -> None:
    """Execute the transactions of binary logs on the running server, and remove the files."""
    if not files:
        return
    printing, executing = engine.replay_commands(layout, client, files)
    reading, writing = os.pipe()
    environment = command_environment(engine, layout)
    processes: list[asyncio.subprocess.Process] = []
    try:
        pipe = asyncio.subprocess.PIPE
        null = asyncio.subprocess.DEVNULL
        try:
            processes.append(
                await asyncio.create_subprocess_exec(
                    *printing, stdin=null, stdout=writing, stderr=pipe, env=environment
                )
            )
            processes.append(
                await asyncio.create_subprocess_exec(
                    *executing, stdin=reading, stdout=null, stderr=pipe, env=environment
                )
            )
        finally:
            os.close(reading)
            os.close(writing)
        async with asyncio.timeout(REPLAY_SECONDS):
            outputs = await asyncio.gather(*(each.communicate() for each in processes))
    finally:
        for process in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    # The second process is checked first: if it fails, the first one fails only because its reader is gone.
    for process, (_, messages), command in reversed(list(zip(processes, outputs, (printing, executing), strict=True))):
        if process.returncode:
            raise CommandError(f"{command[0]} ended with {process.returncode}: {tail(messages)}")
    for file in files:
        file.unlink()
