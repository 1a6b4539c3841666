"""Starts the nodes of a cluster: `start`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from steersman.client import Client
from steersman.telemetry.clock import Now, utc_now
from steersman_cluster.kubelet import Kubelet
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.behaviour import Defaults
from steersman_cluster.nodes.image_store import ImageStore
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.process.images import Images
from steersman_cluster.nodes.process.kubelet import ProcessKubelet
from steersman_cluster.nodes.process.runtime import ProcessRuntime
from steersman_cluster.nodes.process.sandbox import Mode, detect
from steersman_cluster.nodes.registration import SIMULATED_CAPACITY, NodeInfo, Registration, machine_capacity
from steersman_cluster.nodes.simulated import SimulatedKubelet, SimulatedNode, SimulatedRuntime

if TYPE_CHECKING:
    from steersman_cluster.nodes.network.service_sync import ServiceSync

__all__ = ["Kind", "Nodes", "ProcessNode", "start"]

Kind = Literal["simulated", "process"]


_NOTES: dict[str, tuple[str, bool, str, str]] = {
    "plain": (
        "Sandboxed",
        False,
        "NoNamespaces",
        "neither bubblewrap nor mount namespaces work here: containers find their mounts under $STEERSMAN_ROOT only",
    )
}


class Nodes:
    """Nodes that were started together, by name."""

    def __init__(
        self,
        agent: Agent,
        nodes: Mapping[str, Any],
        kubelets: Mapping[str, Kubelet],
        *,
        services: ServiceSync | None = None,
    ) -> None:
        self.agent = agent
        self.kubelets = kubelets
        """The kubelets by node name, for the API server."""
        self._nodes = dict(nodes)
        self._services = services

    def add(self, nodes: Mapping[str, Any]) -> None:
        """Add nodes."""
        self._nodes.update(nodes)

    def __getitem__(self, name: str) -> Any:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    async def close(self) -> None:
        """Stop the nodes and kill their processes. Safe to call twice."""
        await self.agent.close()
        if self._services is not None:
            await self._services.close()
        await self.agent.runtime.close()

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
    stores: Sequence[Path] = (),
    data: Path | None = None,
    keep: bool = True,
    server: tuple[str, int] | None = None,
    mode: Mode | None = None,
    network: ClusterNetwork | None = None,
) -> Nodes:
    """Register nodes and run their Pods until `close`; returns when they are Ready and have listed their Pods.

    The names are `node-1`, `node-2`, … unless `names` is given. `defaults` is for simulated nodes. Process nodes
    use `images` (the file that maps images to local commands), `stores` (directories of imported images),
    `data` (the directory of volumes and logs, which they need; deleted with the nodes unless `keep`), `server` (the
    values of `KUBERNETES_SERVICE_HOST` and `_PORT` in Pods), `mode` (default: the best one that works) and `network` (a
    network of namespaces that the caller closes; without it all Pods share the network of this machine).
    `events=False` writes no Events. Raises `ValueError` for another kind and for process nodes without `data`, and the
    errors of the client.
    """
    every = names or tuple(f"{prefix}{number}" for number in range(first, first + count))
    if kind == "simulated":
        return await _simulated(client, every, capacity, labels or {}, defaults or Defaults(), now, events=events)
    if kind == "process":
        found = Images(images, [ImageStore(store) for store in stores])
        if data is None:
            raise ValueError("process nodes need a directory: pass data")
        temporary = None if keep else data
        return await _process(
            client, every, capacity, labels or {}, found, data, temporary, server, now, mode, network, events=events
        )
    raise ValueError(f"no such kind of node: {kind}; there are simulated and process")


async def _simulated(
    client: Client,
    names: tuple[str, ...],
    capacity: Mapping[str, str] | None,
    labels: Mapping[str, str],
    defaults: Defaults,
    now: Now,
    *,
    events: bool,
) -> Nodes:
    infos = [
        NodeInfo(name, f"10.0.{number >> 8}.{number & 255}", "simulated", capacity or SIMULATED_CAPACITY, labels)
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


async def _process(
    client: Client,
    names: tuple[str, ...],
    capacity: Mapping[str, str] | None,
    labels: Mapping[str, str],
    images: Images,
    data: Path,
    temporary: Path | None,
    server: tuple[str, int] | None,
    now: Now,
    asked: Mode | None,
    network: ClusterNetwork | None,
    *,
    events: bool,
) -> Nodes:
    mode = asked or await asyncio.to_thread(detect)
    note = (_NOTES[mode],) if mode in _NOTES else ()
    addresses = {name: network.add_node(name).address if network is not None else "127.0.0.1" for name in names}
    infos = [
        NodeInfo(name, addresses[name], "process", capacity or machine_capacity(), labels, notes=note) for name in names
    ]

    def clock() -> float:
        return now().timestamp()

    registrations = {info.name: Registration(client, info, clock) for info in infos}
    agent = Agent(
        client,
        registrations,
        lambda a: ProcessRuntime(a, images, data, mode, server, network, temporary),
        now=now,
        events=events,
    )
    runtime = agent.runtime
    assert isinstance(runtime, ProcessRuntime)
    services: ServiceSync | None = None
    if network is not None:
        from steersman_cluster.nodes.network.service_sync import ServiceSync  # The import of dnspython is slow.

        services = ServiceSync(client, network)
    await runtime.start()
    nodes = Nodes(agent, {}, {}, services=services)
    try:
        if services is not None:
            await services.start()
        await agent.start()
    except BaseException:
        await nodes.close()
        raise
    kubelet = ProcessKubelet(agent, runtime)
    nodes.kubelets = dict.fromkeys(names, kubelet)
    nodes.add({name: ProcessNode(name, kubelet, mode) for name in names})
    return nodes


@dataclass(frozen=True, slots=True)
class ProcessNode:
    """One process node: its kubelet, and the mode that isolates its containers."""

    name: str
    kubelet: ProcessKubelet
    mode: Mode
