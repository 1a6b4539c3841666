"""Connections of the agent to its server, through the UNIX socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import aiomysql  # pyright: ignore[reportMissingTypeStubs]

from mysqlcluster.engines.base import Row

__all__ = ["DriverError", "LocalSession", "connect"]

_driver = cast(Any, aiomysql)  # the driver has no types
DriverError: type[Exception] = _driver.Error
"""The base class of all errors of the server and the driver."""

CONNECT_SECONDS = 2.0
STATEMENT_SECONDS = 10.0


class LocalSession:
    """One connection; every statement has a time limit."""

    def __init__(self, connection: Any, statement_seconds: float = STATEMENT_SECONDS) -> None:
        """Use a connection of aiomysql."""
        self._connection = connection
        self._seconds = statement_seconds

    async def run(self, statement: str, *arguments: Any) -> list[Row]:
        """Run one statement, and return its rows.

        Raises:
            TimeoutError: The server did not answer in time; the connection is closed.
        """
        try:
            async with asyncio.timeout(self._seconds):
                async with self._connection.cursor(_driver.DictCursor) as cursor:
                    await cursor.execute(statement, arguments or None)
                    return list(await cursor.fetchall())
        except (TimeoutError, asyncio.CancelledError):
            self._connection.close()
            raise


@contextlib.asynccontextmanager
async def connect(
    socket: Path, password: str, *, statement_seconds: float = STATEMENT_SECONDS
) -> AsyncGenerator[LocalSession]:
    """Connect as the local administrator within an `async with` block.

    Raises:
        OSError: The server does not listen.
        DriverError: The server refuses the connection.
        TimeoutError: The server does not answer in time.
    """
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await _driver.connect(
            unix_socket=str(socket), user="root", password=password, autocommit=True, charset="utf8mb4"
        )
    try:
        yield LocalSession(connection, statement_seconds)
    finally:
        connection.close()
