"""The periodic measurements of a node: the resource usage of containers, and the sizes of limited volumes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.pod_events import End
from steersman_cluster.nodes.process.meter import SAMPLE_EVERY_SECONDS
from steersman_cluster.nodes.process.pod_resources import PodResources
from steersman_cluster.nodes.process.processes import consumed
from steersman_cluster.nodes.process.volume_sizes import (
    CHECK_EVERY_SECONDS,
    eviction_of,
    limited_volumes,
    used_bytes,
)

__all__ = ["Measurements"]


class Measurements:
    """Measures the Pods of a node, by UID, from `start` to `close`."""

    def __init__(self, agent: Agent, resources: Mapping[str, PodResources]) -> None:
        self._agent = agent
        self._resources = resources
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks that measure."""
        self._tasks = [
            asyncio.create_task(self._sample_containers(), name="container metrics"),
            asyncio.create_task(self._watch_volumes(), name="volume sizes"),
        ]

    async def close(self) -> None:
        """Stop the tasks that measure. Safe to call twice."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _sample_containers(self) -> None:
        """Take samples of all containers periodically, so that each request finds a recent one."""
        while True:
            await asyncio.sleep(SAMPLE_EVERY_SECONDS)
            for run in [run for resources in self._resources.values() for run in resources.runs.values()]:
                if not run.process.ended:
                    cpu_seconds, _ = await asyncio.to_thread(consumed, run.process.pid)
                    run.meter.take(time.monotonic(), cpu_seconds)

    async def _watch_volumes(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_SECONDS)
            await self.check_volume_sizes()

    async def check_volume_sizes(self) -> None:
        """Evict each Pod with an emptyDir volume that uses more than its size limit."""
        for uid, resources in list(self._resources.items()):
            limits = limited_volumes(resources.pod)
            used: dict[str, int] = {}
            for name in limits.keys() & resources.volumes.keys():
                used[name] = await asyncio.to_thread(used_bytes, resources.volumes[name])
            if (termination := eviction_of(limits, used)) is not None:
                self._agent.post(uid, End(termination))
