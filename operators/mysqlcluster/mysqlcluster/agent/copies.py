"""Copies of a running server: the donor sends a stream, from which the recipient creates its data directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import aiohttp

from mysqlcluster.agent.process import CommandError, command_environment, run_command, tail
from mysqlcluster.engines import Engine, Layout
from mysqlcluster.gtid import GtidSet

__all__ = ["HISTORY_HEADER", "fetch_copy", "receive_copy", "send_copy"]

HISTORY_HEADER = "X-Gtid-History"
CHUNK_BYTES = 1 << 18
IDLE_SECONDS = 60.0
"""A copy fails if no byte arrives in this time."""
PREPARE_SECONDS = 3600.0


async def send_copy(engine: Engine, layout: Layout, password: str) -> AsyncGenerator[bytes]:
    """Yield a consistent copy of the running server.

    Raises:
        CommandError: The copy failed; the recipient must discard the data that it has received.
    """
    with tempfile.TemporaryDirectory(dir=layout.data, prefix="copy-", ignore_cleanup_errors=True) as scratch:
        options = Path(scratch) / "client.cnf"
        options.touch(mode=0o600)
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        options.write_text(f'[client]\nuser = root\npassword = "{escaped}"\n')
        process = await asyncio.create_subprocess_exec(
            *engine.backup_command(layout, options, Path(scratch)),
            env=command_environment(engine, layout),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        messages = asyncio.create_task(_last_bytes(process.stderr))
        try:
            while chunk := await process.stdout.read(CHUNK_BYTES):
                yield chunk
            if code := await process.wait():
                raise CommandError(f"the copy ended with {code}: {tail(await messages)}")
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            await asyncio.gather(messages, return_exceptions=True)


async def _last_bytes(stream: asyncio.StreamReader, limit: int = 1 << 14) -> bytes:
    kept = b""
    while chunk := await stream.read(limit):
        kept = (kept + chunk)[-limit:]
    return kept


async def fetch_copy(url: str, token: str, tls: ssl.SSLContext | None) -> tuple[GtidSet, AsyncGenerator[bytes]]:
    """Request a copy from an agent; return the GTID history of its server and the stream.

    Raises:
        CommandError: The agent refuses or is unreachable.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=IDLE_SECONDS)
    session = aiohttp.ClientSession(timeout=timeout)
    try:
        response = await session.get(
            f"{url}/v1/copy", headers={"Authorization": f"Bearer {token}"}, ssl=tls if tls is not None else True
        )
        if response.status != 200:
            detail = (await response.content.read(1000)).decode(errors="replace")
            raise CommandError(f"{url} refused a copy ({response.status}): {detail}")
        history = GtidSet.parse(response.headers.get(HISTORY_HEADER, ""))
    except (aiohttp.ClientError, OSError) as problem:
        await session.close()
        raise CommandError(f"{url} cannot be reached: {problem}") from None
    except BaseException:
        await session.close()
        raise

    async def chunks() -> AsyncGenerator[bytes]:
        try:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                yield chunk
        except (aiohttp.ClientError, OSError) as problem:
            raise CommandError(f"the copy from {url} broke off: {problem or type(problem).__name__}") from None
        finally:
            response.close()
            await session.close()

    return history, chunks()


async def receive_copy(engine: Engine, layout: Layout, chunks: AsyncIterator[bytes], directory: Path) -> GtidSet:
    """Unpack and prepare a copy in an empty directory, and return its position.

    Raises:
        CommandError: The stream ended early, or a program failed.
    """
    await asyncio.to_thread(_empty, directory)
    process = await asyncio.create_subprocess_exec(
        *engine.unpack_command(layout, directory),
        env=command_environment(engine, layout),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    messages = asyncio.create_task(_last_bytes(process.stderr))
    try:
        async for chunk in chunks:
            process.stdin.write(chunk)
            await process.stdin.drain()
        process.stdin.close()
        if code := await process.wait():
            raise CommandError(f"unpacking the copy ended with {code}: {tail(await messages)}")
    except (BrokenPipeError, ConnectionResetError):
        raise CommandError(f"unpacking the copy failed: {tail(await messages)}") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.gather(messages, return_exceptions=True)
    if command := engine.prepare_command(layout, directory):
        await run_command(engine, layout, command, seconds=PREPARE_SECONDS)
    position = engine.position_of(directory)
    await asyncio.to_thread(os.sync)
    return position


def _empty(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
