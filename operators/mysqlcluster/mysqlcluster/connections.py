"""Connections to the agents of all clusters, kept between reconciles."""

from __future__ import annotations

from typing import Protocol

from steersman import Key

from mysqlcluster.actions import Action
from mysqlcluster.agents import ActionError, Agents
from mysqlcluster.observation import MemberState, unreachable

__all__ = ["AgentSource", "source_of_agents", "use_agents"]


class AgentSource(Protocol):
    """Gives access to the agents of a cluster."""

    async def of(self, key: Key, token: str, authority: str) -> Agents:
        """Return the agents of a cluster.

        Args:
            key: Namespace and name of the cluster.
            token: The token that its agents want.
            authority: The certificate authority of its agents, in PEM.
        """
        ...


class _Unconnected:
    """Agents that cannot be reached."""

    async def of(self, key: Key, token: str, authority: str) -> Agents:
        return self

    async def state(self, member: str) -> MemberState:
        return unreachable(member)

    async def act(self, action: Action) -> MemberState:
        raise ActionError(f"{action.member}: this process has no connection to agents")


_sources: list[AgentSource] = [_Unconnected()]


def use_agents(source: AgentSource) -> None:
    """Let the operator reach agents through `source` from now on."""
    _sources[:] = [source]


def source_of_agents() -> AgentSource:
    """Return the source of agents in use; until `use_agents` is called no agent is reachable."""
    return _sources[0]
