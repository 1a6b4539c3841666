"""The record of one Pod on a node, and the runtime that runs or simulates its containers."""

from __future__ import annotations

from typing import Protocol

from steersman_cluster.nodes.pod_events import Effect
from steersman_cluster.nodes.pod_state import PodState
from steersman_cluster.objects import Object, name_of, namespace_of

__all__ = ["NodePod", "Runtime"]


class Runtime(Protocol):
    """Runs or simulates containers. Its methods are synchronous; it reports with `Agent.post`."""

    adopts: bool
    """Whether containers keep running without an agent."""

    def added(self, node_pod: NodePod) -> None:
        """Handle a new Pod."""
        ...

    def synced(self, node_pod: NodePod) -> None:
        """Handle a new version of the Pod."""
        ...

    def perform(self, node_pod: NodePod, effect: Effect) -> None:
        """Perform an effect of the state machine: `Prepare`, `Start`, `Stop`."""
        ...

    async def removed(self, node_pod: NodePod) -> None:
        """Clean up after a Pod that has ended, before its deletion."""
        ...

    def forgotten(self, node_pod: NodePod) -> None:
        """Kill the remaining processes of a deleted Pod at once."""
        ...

    async def close(self) -> None:
        """Kill all containers and release what the runtime holds."""
        ...


class NodePod:
    """The agent's record of one Pod: its object, its state and the pending write."""

    __slots__ = ("deleted", "node", "pod_state", "sent", "timer", "waiting", "writing")

    def __init__(self, pod_state: PodState, node: str) -> None:
        self.pod_state = pod_state
        self.node = node
        self.sent: Object = {}
        """The fields of status as last written."""
        self.waiting = False
        self.writing = False
        self.timer = 0.0
        """The loop time of the next Tick; 0 for none."""
        self.deleted = False

    @property
    def namespace(self) -> str:
        """`metadata.namespace` of the Pod."""
        return namespace_of(self.pod_state.pod)

    @property
    def name(self) -> str:
        """`metadata.name` of the Pod."""
        return name_of(self.pod_state.pod)

    @property
    def uid(self) -> str:
        """`metadata.uid`, which distinguishes Pods that had the same name."""
        return self.pod_state.uid
