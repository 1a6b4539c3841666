"""`start`: bring up nodes of a kind and hand them over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from steersman.client import Client
from steersman.devcluster.kubelet import Kubelet
from steersman.devcluster.nodes.agent import Agent
from steersman.devcluster.nodes.behaviour import Defaults
from steersman.devcluster.nodes.registration import BIG, NodeInfo, Registration
from steersman.devcluster.nodes.simulated import SimulatedKubelet, SimulatedNode, SimulatedRuntime
from steersman.telemetry.clock import Now, utc_now

__all__ = ["Kind", "Nodes", "start"]

Kind = Literal["simulated", "process"]


class Nodes:
    """Nodes that were started together, by name; close them to stop."""

    def __init__(self, agent: Agent, nodes: Mapping[str, Any], kubelets: Mapping[str, Kubelet]) -> None:
        self.agent = agent
        self.kubelets = kubelets
        """By node name, for the API server's directory."""
        self._nodes = nodes

    def __getitem__(self, name: str) -> Any:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    async def close(self) -> None:
        """Stop: nothing is written any more, and every process of the nodes is killed. Safe to call twice."""
        await self.agent.close()
        close = getattr(self.agent.runtime, "close", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Nodes:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def start(
    client: Client,
    kind: Kind = "simulated",
    count: int = 1,
    *,
    prefix: str = "node-",
    first: int = 1,
    names: tuple[str, ...] = (),
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    defaults: Defaults | None = None,
    events: bool = True,
    now: Now = utc_now,
    images: Path | None = None,
    data: Path | None = None,
    server: tuple[str, int] | None = None,
) -> Nodes:
    """Register nodes and run their Pods until `close`; returns once they are Ready and know their Pods.

    They are called `node-1`, `node-2`, … unless `names` says otherwise. `defaults` are of simulated nodes; `images` (the file
    that maps images to local directories or commands), `data` (where volumes and logs lie) and `server` (what Pods get as
    `KUBERNETES_SERVICE_HOST` and `_PORT`) of process nodes. `events=False` writes no Events. Raises `ValueError` for
    another kind and the client's errors when the API server refuses.
    """
    every = names or tuple(f"{prefix}{number}" for number in range(first, first + count))
    if kind == "simulated":
        return await _simulated(client, every, capacity, labels or {}, defaults or Defaults(), events, now)
    raise ValueError(f"no such kind of node: {kind}; there are simulated and process")


async def _simulated(
    client: Client,
    names: tuple[str, ...],
    capacity: Mapping[str, str] | None,
    labels: Mapping[str, str],
    defaults: Defaults,
    events: bool,
    now: Now,
) -> Nodes:
    infos = [
        NodeInfo(name, f"10.0.{number >> 8}.{number & 255}", "simulated", capacity or BIG, labels)
        for number, name in enumerate(names, start=1)
    ]

    def clock() -> float:
        return now().timestamp()

    registrations = {info.name: Registration(client, info, clock) for info in infos}
    agent = Agent(client, registrations, lambda a: SimulatedRuntime(a, defaults), now=now, events=events)
    await agent.start()
    runtime = agent.runtime
    assert isinstance(runtime, SimulatedRuntime)
    kubelet = SimulatedKubelet(agent)
    nodes = {name: SimulatedNode(name, agent, runtime, kubelet) for name in names}
    return Nodes(agent, nodes, dict.fromkeys(names, kubelet))
