"""The interface of the controller to the agents of a cluster, and the observation of all members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from mysqlcluster.actions import Action
from mysqlcluster.machine.state import ClusterState, Kind, Step
from mysqlcluster.observation import MemberState, Observation

__all__ = ["ActionError", "Agents", "Reports", "observe", "perform"]

LOST_SECONDS = 0.25
"""Time limit of a report of the lost primary during a failover: most failovers do not need it."""
SHORT_WAIT_SECONDS = 10.0
"""Age of a failover from which its lost primary has the usual time to answer, because it may decide the failover."""


class ActionError(Exception):
    """An agent refused an action or did not answer; the action may have been performed."""


class Reports(Protocol):
    """The agents of one cluster, as far as they report states."""

    async def state(self, member: str, seconds: float | None = None) -> MemberState:
        """Return the state of a member; `unreachable` if its agent does not answer in the given or usual time."""
        ...


class Agents(Reports, Protocol):
    """The agents of one cluster."""

    async def act(self, action: Action) -> MemberState:
        """Perform an action through its agent; raises `ActionError`."""
        ...

    def watch(self, members: Sequence[str], primary: str, changed: Callable[[], None]) -> bool:
        """Call a function when a member changes or does not answer; return whether every change is noticed."""
        ...


async def observe(agents: Reports, members: Sequence[str], state: ClusterState, now: float) -> Observation:
    """Return the states of all members; the primary is read after the last replica has answered.

    Args:
        agents: The agents.
        members: Names of the members.
        state: The stored state. The lost primary of a failover in progress has little time to answer.
        now: The time of the observation, in seconds since the epoch of Unix.
    """
    lost = _lost_primary(state, now)

    async def report(member: str) -> MemberState:
        return await agents.state(member, LOST_SECONDS if member == lost else None)

    replicas = [name for name in members if name != state.primary]
    found = dict(zip(replicas, await asyncio.gather(*map(report, replicas)), strict=True))
    if state.primary in members:
        found[state.primary] = await report(state.primary)
    return Observation(tuple(found[name] for name in members), now)


def _lost_primary(state: ClusterState, now: float) -> str:
    """Return the lost primary of a failover in progress; empty if it is not lost yet, or may decide."""
    failover = state.transition
    if failover is None or failover.kind is not Kind.FAILOVER or failover.step is Step.SUSPECT:
        return ""
    may_decide = failover.source == failover.target or now - failover.started_at >= SHORT_WAIT_SECONDS
    return "" if may_decide else failover.source


async def perform(agents: Agents, actions: Sequence[Action]) -> tuple[str, ...]:
    """Perform actions concurrently, and return the error messages."""

    async def one(action: Action) -> str:
        try:
            await agents.act(action)
        except ActionError as problem:
            return f"{type(action).__name__} of {action.member}: {problem}"
        return ""

    return tuple(filter(None, await asyncio.gather(*map(one, actions))))
