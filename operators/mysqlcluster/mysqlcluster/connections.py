"""Connections to the agents of all clusters, kept between reconciles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from steersman import Key

from mysqlcluster import names
from mysqlcluster.actions import Action
from mysqlcluster.agent.client import ActionRefusedError, AgentClient, AgentUnreachableError
from mysqlcluster.agents import ActionError, Agents
from mysqlcluster.change_streams import ChangeStreams
from mysqlcluster.observation import MemberState

__all__ = ["AgentSource", "HttpsAgentSource", "source_of_agents", "use_agents"]


class AgentSource(Protocol):
    """Gives access to the agents of a cluster."""

    async def of(self, key: Key, token: str, authority: str) -> Agents:
        """Return the agents of a cluster.

        Args:
            key: Namespace and name of the cluster.
            token: The bearer token of its agents.
            authority: The certificate authority of its agents, in PEM.
        """
        ...

    async def keep(self, clusters: Collection[Key]) -> None:
        """Close the connections to the agents of all other clusters."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpsAgents:
    """The agents of one cluster, over HTTPS."""

    def __init__(self, client: AgentClient, streams: ChangeStreams) -> None:
        """Use an open client and the streams of its agents."""
        self._client = client
        self._streams = streams

    async def state(self, member: str, seconds: float | None = None) -> MemberState:
        """Return the state of a member; `unreachable` if its agent does not answer in the given or usual time."""
        return await self._client.state(member, seconds)

    async def act(self, action: Action) -> MemberState:
        """Perform an action through its agent; raises `ActionError`."""
        try:
            return await self._client.act(action)
        except (ActionRefusedError, AgentUnreachableError) as problem:
            raise ActionError(str(problem)) from None

    def watch(self, members: Sequence[str], primary: str, changed: Callable[[], None]) -> bool:
        """Call a function at changes; see `Agents.watch`."""
        return self._streams.watch(members, primary, changed)


class HttpsAgentSource:
    """Clients of the agents of all clusters; each is kept until its token or authority changes."""

    def __init__(self, url_of: Callable[[Key, str], str] = names.agent_url) -> None:
        """Store the function; connections open on demand.

        Args:
            url_of: The URL of a member of a cluster.
        """
        self._url_of = url_of
        self._clients: dict[Key, tuple[tuple[str, str], AgentClient, ChangeStreams]] = {}

    async def of(self, key: Key, token: str, authority: str) -> Agents:
        """Return the agents of a cluster; arguments are those of `AgentSource.of`."""
        known = self._clients.get(key)
        if known is None or known[0] != (token, authority):
            await self.forget(key)
            client = AgentClient(lambda member: self._url_of(key, member), lambda: token, authority)
            known = self._clients[key] = ((token, authority), client, ChangeStreams(client))
        return HttpsAgents(*known[1:])

    async def forget(self, key: Key) -> None:
        """Close the connections to the agents of a cluster."""
        known = self._clients.pop(key, None)
        if known is not None:
            _, client, streams = known
            await streams.close()
            await client.close()

    async def keep(self, clusters: Collection[Key]) -> None:
        """Close the connections to the agents of all other clusters."""
        for key in [key for key in self._clients if key not in clusters]:
            await self.forget(key)

    async def close(self) -> None:
        """Close all connections."""
        for key in list(self._clients):
            await self.forget(key)


_sources: list[AgentSource] = [HttpsAgentSource()]


def use_agents(source: AgentSource) -> None:
    """Replace the source of connections to agents in this process."""
    _sources[:] = [source]


def source_of_agents() -> AgentSource:
    """Return the source of connections to agents: HTTPS, unless `use_agents` has replaced it."""
    return _sources[0]
