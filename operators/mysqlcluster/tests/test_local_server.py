"""The agent's reports of a server that does not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mysqlcluster.agent import local
from mysqlcluster.agent.local import LocalServer
from mysqlcluster.agent.process import ServerProcess
from mysqlcluster.agent.settings import AgentSettings, Secrets
from mysqlcluster.agent.tls import Certificates

PASSWORD = "root"
SECRETS = Secrets(
    agent_token="token", root_password=PASSWORD, replication_password="replication", application_password="app"
)


class Waiting:
    """An engine whose server answers reports when a test lets it."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.reads = 0

    async def read(self, session: object) -> str:
        self.reads += 1
        await self.answers.wait()
        return "facts"


@contextlib.asynccontextmanager
async def connected(*_: object, **__: object) -> AsyncGenerator[object]:
    yield object()


async def test_a_server_that_does_not_answer_a_report_gets_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "connect", connected)
    monkeypatch.setattr(local, "READ_SECONDS", 0.01)
    monkeypatch.setattr(ServerProcess, "running", True)
    settings = AgentSettings("m-0", 1, "mariadb", str(tmp_path / "data"), str(tmp_path))
    waiting: Any = Waiting()
    server = LocalServer(settings, waiting, lambda: SECRETS, Certificates(""))
    monkeypatch.setattr(server, "_root_password", PASSWORD)
    assert [await server.facts() for _ in range(5)] == [None] * 5
    assert waiting.reads == 1
    waiting.answers.set()
    async with asyncio.timeout(30):
        while await server.facts() is None:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
    assert waiting.reads == 2
