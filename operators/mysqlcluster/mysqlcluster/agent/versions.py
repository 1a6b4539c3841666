"""The versions of the server's programs and of the data.

A newer server upgrades the data; an older server must not read it.
"""

from __future__ import annotations

import asyncio

from mysqlcluster.agent.process import CommandError, command_environment, run_command, tail
from mysqlcluster.engines import Engine, Layout
from mysqlcluster.versions import series

__all__ = ["check_copy", "is_newer", "needs_upgrade", "program_version", "upgrade_data"]

VERSION_SECONDS = 10.0
UPGRADE_SECONDS = 3600.0


async def program_version(engine: Engine, layout: Layout) -> str:
    """Return the version of the server's program.

    Raises:
        CommandError: The program does not start, or prints no version.
    """
    process = await asyncio.create_subprocess_exec(
        *engine.version_command(layout),
        env=command_environment(engine, layout),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(VERSION_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CommandError(f"{engine.version_command(layout)[0]} told no version in {VERSION_SECONDS:.0f} s") from None
    words = output.decode(errors="replace").split()
    found = next((word for word in words if series(word) > (0, 0)), "")
    if process.returncode or not found:
        raise CommandError(f"{engine.version_command(layout)[0]} told no version: {tail(output)}")
    return found


def is_newer(data: str, program: str) -> bool:
    """Return whether a later series than the program's has written the data, which then cannot be read."""
    return bool(data) and series(data) > series(program)


def needs_upgrade(data: str, program: str) -> bool:
    """Return whether the system tables of the data are of an earlier series than the program's."""
    return bool(data) and series(data) < series(program)


def check_copy(data: str, program: str) -> None:
    """Raise an error if this server cannot read a copy.

    Raises:
        CommandError: The copy is of a later series.
    """
    if is_newer(data, program):
        raise CommandError(f"the copy is of version {data}, and this server is {program}: data cannot be downgraded")


async def upgrade_data(engine: Engine, layout: Layout, password: str) -> None:
    """Upgrade the system tables of the running server; replicas do not see the statements.

    Raises:
        CommandError: The program failed.
    """
    command = engine.upgrade_command(layout)
    if not command:
        return
    # The program passes options to the client in a temporary file, where it does not quote a password.
    await run_command(engine, layout, command, seconds=UPGRADE_SECONDS, password=password)
