"""Metrics of the server in the text format of Prometheus, at `GET /metrics` of a port without TLS.

The account `exporter` reads them. It has no privilege on data. The names are those of mysqld_exporter, so that its
dashboards can be used.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import aiomysql  # pyright: ignore[reportMissingTypeStubs]
from aiohttp import web
from steersman.logs import get_logger

from mysqlcluster.agent.session import DriverError, LocalSession
from mysqlcluster.agent.settings import AgentSettings, Secrets
from mysqlcluster.agent.tls import Certificates
from mysqlcluster.engines.base import Row

__all__ = ["Exporter", "exposition"]

_log = get_logger("mysqlcluster.agent")
_driver = cast(Any, aiomysql)  # the driver has no types

CONNECT_SECONDS = 2.0
VARIABLES = ("max_connections", "innodb_buffer_pool_size", "read_only", "server_id")
_NAME = re.compile(r"[a-z0-9_]{1,80}")
_SWITCHES = {"ON": "1", "OFF": "0", "YES": "1", "NO": "0"}


class Exporter:
    """Serves the metrics of one server."""

    def __init__(self, settings: AgentSettings, secrets: Callable[[], Secrets], certificates: Certificates) -> None:
        """Store the arguments; `start` opens the port.

        Args:
            settings: The settings of the agent.
            secrets: Reads the secrets at each call.
            certificates: The certificates of the cluster.
        """
        self._settings = settings
        self._secrets = secrets
        self._certificates = certificates
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> None:
        """Listen, unless the settings have no port; raises `OSError`."""
        if self._settings.metrics_port:
            await self._runner.setup()
            await web.TCPSite(self._runner, self._settings.address, self._settings.metrics_port).start()

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.StreamResponse:
        text = "# TYPE mysql_up gauge\nmysql_up 0\n"
        try:
            text = await self._read()
        except (OSError, TimeoutError, DriverError) as problem:
            _log.debug("exporter_not_connected", problem=type(problem).__name__)
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _read(self) -> str:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await _driver.connect(
                host="localhost" if self._certificates.client else "127.0.0.1",
                port=self._settings.server_port,
                user="exporter",
                password=self._secrets().exporter_password,
                ssl=self._certificates.client,
            )
        with contextlib.closing(connection):
            session = LocalSession(connection)
            status = await session.run("SHOW GLOBAL STATUS")
            variables = await session.run(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {VARIABLES}")
        return exposition(status, variables)


def exposition(status: Iterable[Row], variables: Iterable[Row]) -> str:
    """Return the metrics of status variables and settings; values that are not numbers or switches are omitted."""
    lines = ["# TYPE mysql_up gauge", "mysql_up 1"]
    for prefix, rows in (("mysql_global_status", status), ("mysql_global_variables", variables)):
        for row in rows:
            name, value = str(row["Variable_name"]).lower(), str(row["Value"])
            value = _SWITCHES.get(value.upper(), value)
            if _NAME.fullmatch(name) and _is_number(value):
                lines += [f"# TYPE {prefix}_{name} untyped", f"{prefix}_{name} {value}"]
    return "\n".join(lines) + "\n"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None
