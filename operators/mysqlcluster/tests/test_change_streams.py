"""The streams with which agents report changes, over HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
from aiohttp import ClientSession, web
from msgspec.structs import replace

from mysqlcluster.agent.changes import send_changes
from mysqlcluster.agent.client import ActionRefusedError, AgentClient
from mysqlcluster.change_streams import ChangeStreams
from mysqlcluster.gtid import GtidSet
from mysqlcluster.observation import MemberState, Role

WAIT_SECONDS = 20.0
REPLICA = MemberState("db-0", server_up=True, role=Role.REPLICA, io_running=True, max_connections=100)


class Agent:
    """An agent with a state that the test changes."""

    def __init__(self) -> None:
        self.state = REPLICA
        self.answers = asyncio.Event()
        self.answers.set()
        self.closing = asyncio.Event()

    async def read(self) -> MemberState:
        await self.answers.wait()
        return self.state

    @contextlib.asynccontextmanager
    async def serving(self, *, streams: bool = True) -> AsyncGenerator[str]:
        async def changes(request: web.Request) -> web.StreamResponse:
            return await send_changes(request, self.read, self.closing)

        application = web.Application()
        if streams:
            application.router.add_get("/v1/changes", changes)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.closing.set()
            await runner.cleanup()


class Operator:
    """Counts the calls of `changed`, and waits for them."""

    def __init__(self, url: str) -> None:
        self.client = AgentClient(lambda _: url, lambda: "token", state_seconds=0.3)
        self.streams = ChangeStreams(self.client, primary_heartbeat=0.1, replica_heartbeat=0.1, retry=0.05)
        self.calls: asyncio.Queue[None] = asyncio.Queue()

    def watch(self) -> bool:
        return self.streams.watch(["db-0"], "db-0", lambda: self.calls.put_nowait(None))

    async def called(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self.calls.get()


@contextlib.asynccontextmanager
async def operator(url: str) -> AsyncGenerator[Operator]:
    found = Operator(url)
    try:
        yield found
    finally:
        await found.streams.close()
        await found.client.close()


@contextlib.asynccontextmanager
async def watching(agent: Agent) -> AsyncGenerator[Operator]:
    """Serve an agent, and open the stream of an operator to it."""
    async with agent.serving() as url, operator(url) as found:
        assert not found.watch()
        await found.called()
        assert found.watch()
        yield found


async def test_a_stream_is_open_after_its_first_byte_and_each_change_of_the_condition_is_reported():
    agent = Agent()
    async with watching(agent) as found:
        agent.state = replace(REPLICA, io_running=False)
        await found.called()
        assert found.watch()


async def test_transactions_and_a_small_lag_are_no_change_of_the_condition():
    busy = replace(REPLICA, executed=GtidSet.parse("0-1-7"), lag_seconds=3.0, probe_seconds=0.2, connections=4)
    assert busy.condition == REPLICA.condition
    assert replace(REPLICA, lag_seconds=9.0).condition == replace(REPLICA, lag_seconds=15.9).condition
    assert replace(REPLICA, lag_seconds=16.0).condition != replace(REPLICA, lag_seconds=15.9).condition
    assert replace(REPLICA, connections=40).condition != REPLICA.condition


async def test_an_agent_that_misses_a_heartbeat_is_reported_and_connected_to_again():
    agent = Agent()
    async with watching(agent) as found:
        agent.answers.clear()
        await found.called()
        assert not found.watch()
        agent.answers.set()
        await found.called()
        assert found.watch()


async def test_an_agent_that_closes_ends_its_streams():
    agent = Agent()
    async with watching(agent) as found:
        agent.closing.set()
        await found.called()
        assert not found.watch()


async def test_an_agent_of_a_former_version_has_no_stream_so_that_its_cluster_is_polled():
    agent = Agent()
    async with agent.serving(streams=False) as url, operator(url) as found:
        assert not found.watch()
        with pytest.raises(ActionRefusedError, match="404"):
            async for _ in found.client.changes("db-0", 1.0):
                pass
        assert not found.watch()


@pytest.mark.parametrize("heartbeat", ["", "x", "nan", "0", "61", "1e999"])
async def test_a_heartbeat_outside_of_the_limits_is_refused(heartbeat: str):
    async with (
        Agent().serving() as url,
        ClientSession() as session,
        session.get(f"{url}/v1/changes", params={"heartbeat": heartbeat}) as response,
    ):
        assert response.status == 400
        assert "heartbeat" in (await response.json())["error"]
