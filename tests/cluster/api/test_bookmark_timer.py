"""The bookmark timer of a watch makes progress on loops that fire timers early, as asyncio allows."""

from __future__ import annotations

import asyncio

from steersman.testing import Simulation, VirtualTimeLoop
from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.cluster import ADMIN

EARLY_SECONDS = 0.25


class EarlyLoop(VirtualTimeLoop):
    """Fires each timer a quarter of a second before its time: asyncio's clock resolution, enlarged."""

    def _set_time(self, now: float) -> None:
        super()._set_time(now)
        self._clock_resolution = 2 * EARLY_SECONDS

    def _advance(self, seconds: float) -> None:
        super()._advance(max(0.0, seconds - EARLY_SECONDS))


async def bookmarks_of_a_watch() -> list[bytes]:
    async with Simulation.start(controllers=False, nodes=0) as simulation:
        transport = InProcessTransport(simulation.cluster.server, ADMIN)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "150"}
        lines: list[bytes] = []
        async with transport.stream(
            "GET", "/api/v1/secrets", query=query, connect_timeout=10, idle_timeout=100
        ) as answer:
            async for chunk in answer.chunks:
                lines += chunk.splitlines()
        return lines


def test_a_watch_sends_its_last_bookmark_once_when_timers_fire_early() -> None:
    with asyncio.Runner(loop_factory=lambda: EarlyLoop(max_steps=10_000)) as runner:
        lines = runner.run(bookmarks_of_a_watch())
    assert [b"BOOKMARK" in line for line in lines] == [True, True, True]
