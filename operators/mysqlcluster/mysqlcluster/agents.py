"""The interface of the controller to the agents of a cluster, and the observation of all members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from mysqlcluster.actions import Action
from mysqlcluster.observation import MemberState, Observation

__all__ = ["ActionError", "Agents", "observe", "perform"]


class ActionError(Exception):
    """An agent refused an action or did not answer; the action may have been performed."""


class Agents(Protocol):
    """The agents of one cluster."""

    async def state(self, member: str) -> MemberState:
        """Return the state of a member; `unreachable` if its agent does not answer in time."""
        ...

    async def act(self, action: Action) -> MemberState:
        """Perform an action through its agent; raises `ActionError`."""
        ...

    def watch(self, members: Sequence[str], primary: str, changed: Callable[[], None]) -> bool:
        """Call a function when a member changes or does not answer; return whether every change is noticed."""
        ...


async def observe(agents: Agents, members: Sequence[str], primary: str, now: float) -> Observation:
    """Return the states of all members; the primary is read after the last replica has answered."""
    replicas = [name for name in members if name != primary]
    found = dict(zip(replicas, await asyncio.gather(*map(agents.state, replicas)), strict=True))
    if primary in members:
        found[primary] = await agents.state(primary)
    return Observation(tuple(found[name] for name in members), now)


async def perform(agents: Agents, actions: Sequence[Action]) -> tuple[str, ...]:
    """Perform actions concurrently, and return the error messages."""

    async def one(action: Action) -> str:
        try:
            await agents.act(action)
        except ActionError as problem:
            return f"{type(action).__name__} of {action.member}: {problem}"
        return ""

    return tuple(filter(None, await asyncio.gather(*map(one, actions))))
