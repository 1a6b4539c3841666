"""A temporary server on a copy of data, to check the copy or to replay transactions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from mysqlcluster.agent.process import CommandError, ServerProcess
from mysqlcluster.agent.session import DriverError, LocalSession, connect
from mysqlcluster.engines import Engine, Layout, ServerOptions

__all__ = ["check_tables", "scratch_server", "started"]

START_SECONDS = 120.0
POLL_SECONDS = 0.05
STATEMENT_SECONDS = 3600.0


@contextlib.asynccontextmanager
async def scratch_server(engine: Engine, layout: Layout) -> AsyncGenerator[LocalSession]:
    """Run a server without a network on the database of a layout, and connect to it.

    Raises:
        CommandError: The server does not start.
    """
    options = ServerOptions(
        server_id=1, name="scratch", user="root" if os.geteuid() == 0 else "", settings={"skip_networking": "ON"}
    )
    server = ServerProcess(engine, layout, options)
    try:
        async with started(engine, server, layout, options, secrets.token_urlsafe(24)) as session:
            yield session
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def started(
    engine: Engine, server: ServerProcess, layout: Layout, options: ServerOptions, password: str
) -> AsyncGenerator[LocalSession]:
    """Start a server on a copy, give its local administrator a password, and connect.

    The copy contains the password of its source, which may be another cluster or may have changed.

    Raises:
        CommandError: The server does not start.
    """
    statements = layout.data / "run" / "copy.sql"
    statements.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
    statements.touch(mode=0o600)
    statements.write_text("".join(f"{each};\n" for each in engine.password_statements(password)))
    settings = {**options.settings, "max_allowed_packet": "1G"}
    server.options = msgspec.structs.replace(options, settings=settings, init_file=statements)
    try:
        await server.start()
        async with contextlib.AsyncExitStack() as stack:
            yield await _connected(stack, layout, password)
    finally:
        server.options = options
        statements.unlink(missing_ok=True)


async def _connected(stack: contextlib.AsyncExitStack, layout: Layout, password: str) -> LocalSession:
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError, TimeoutError, DriverError):
                    return await stack.enter_async_context(
                        connect(layout.socket, password, statement_seconds=STATEMENT_SECONDS)
                    )
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log = await asyncio.to_thread(_end_of, layout.log)
        raise CommandError(f"the server did not start on the copy within {START_SECONDS:.0f} s: {log}") from None


def _end_of(file: Path, size: int = 1000) -> str:
    try:
        return file.read_bytes()[-size:].decode(errors="replace")
    except OSError:
        return "it has no log"


async def check_tables(session: LocalSession) -> int:
    """Check every table, and return their number.

    Raises:
        CommandError: A table is damaged.
    """
    tables = await session.run(
        "SELECT TABLE_SCHEMA AS place, TABLE_NAME AS name FROM information_schema.TABLES"
        " WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE IN ('InnoDB', 'Aria', 'MyISAM')"
    )
    for table in tables:
        place, name = (str(table[key]).replace("`", "``") for key in ("place", "name"))
        for row in await session.run(f"CHECK TABLE `{place}`.`{name}` QUICK"):
            if str(row["Msg_type"]).lower() == "error":
                raise CommandError(f"table {place}.{name}: {row['Msg_text']}")
    return len(tables)
