"""Faults over HTTP: `/steersman.dev/faults` lists, starts and ends faults, for administrators."""

from __future__ import annotations

from steersman_cluster.errors import APIError
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.pod_faults import Fault, PodFaults
from steersman_cluster.nodes.process.runtime import ProcessRuntime
from steersman_cluster.objects import Object

__all__ = ["FaultEndpoint"]


class FaultEndpoint:
    """Answers requests about the faults of one cluster."""

    def __init__(self, faults: PodFaults) -> None:
        self._faults = faults

    @classmethod
    def of(cls, agent: Agent, network: ClusterNetwork | None) -> FaultEndpoint:
        """Return the endpoint of process nodes. Raises `TypeError` for nodes of another kind."""
        if not isinstance(agent.runtime, ProcessRuntime):
            raise TypeError("faults of Pods need process nodes")
        return cls(PodFaults(agent, agent.runtime, network))

    async def answer(self, method: str, rest: str, body: Object) -> Object:
        """Perform a request: GET lists, POST starts a fault, DELETE ends one or all. Raises `APIError`."""
        match (method, rest):
            case ("GET", ""):
                present = self._faults.present.items()
                return {"faults": [{"id": identity, **fault.shown()} for identity, fault in present]}
            case ("POST", ""):
                return {"id": await self._faults.add(Fault.parse(body))}
            case ("DELETE", ""):
                await self._faults.clear()
            case ("DELETE", identity):
                await self._faults.remove(identity)
            case _:
                raise APIError(
                    405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
                )
        return {}
