"""Streams of the agents of one cluster: an idle cluster is reconciled when a member changes, and else rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mysqlcluster.agent.client import ActionRefusedError, AgentClient, AgentUnreachableError

__all__ = ["ChangeStreams"]

PRIMARY_HEARTBEAT_SECONDS = 2.0
"""Time between heartbeats of the primary. A primary that stops without closing its connections misses one."""
REPLICA_HEARTBEAT_SECONDS = 10.0
RETRY_SECONDS = 2.0
"""Time until a stream that has ended is opened again."""


class ChangeStreams:
    """One stream per member, each in a task."""

    def __init__(
        self,
        client: AgentClient,
        *,
        primary_heartbeat: float = PRIMARY_HEARTBEAT_SECONDS,
        replica_heartbeat: float = REPLICA_HEARTBEAT_SECONDS,
        retry: float = RETRY_SECONDS,
    ) -> None:
        """Store the client; `watch` opens the streams. The other arguments are times in seconds."""
        self._client = client
        self._heartbeats = replica_heartbeat, primary_heartbeat
        self._retry = retry
        self._changed: Callable[[], None] = _ignore
        self._tasks: dict[tuple[str, bool], asyncio.Task[None]] = {}
        self._open: set[tuple[str, bool]] = set()

    def watch(self, members: Sequence[str], primary: str, changed: Callable[[], None]) -> bool:
        """Keep a stream to each of these members, and close the others.

        Args:
            members: The members.
            primary: The primary among them, with more frequent heartbeats.
            changed: Is called when a member changes, and when a stream opens or ends.

        Returns:
            Whether all streams are open, so that no change is missed.
        """
        self._changed = changed
        wanted = {(member, member == primary) for member in members}
        for stream in self._tasks.keys() - wanted:
            self._tasks.pop(stream).cancel()
        for stream in wanted - self._tasks.keys():
            self._tasks[stream] = asyncio.get_running_loop().create_task(self._follow(stream))
        return self._open >= wanted

    async def close(self) -> None:
        """Close all streams."""
        self._changed = _ignore
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, stream: tuple[str, bool]) -> None:
        member, is_primary = stream
        while True:
            try:
                async for _ in self._client.changes(member, self._heartbeats[is_primary]):
                    self._open.add(stream)
                    self._changed()
            except (ActionRefusedError, AgentUnreachableError):
                pass
            finally:
                was_open = stream in self._open
                self._open.discard(stream)
            if was_open:
                self._changed()
            await asyncio.sleep(self._retry)


def _ignore() -> None:
    """Ignore a change after `close`."""
