"""Prepares a Pod before its containers start: its network, its volumes, and the updates of their files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from steersman.client import ClientError
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_events import NotPrepared, Prepared
from steersman_cluster.nodes.process.api_reader import ApiReader
from steersman_cluster.nodes.process.environment import Facts
from steersman_cluster.nodes.process.images import Images
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes
from steersman_cluster.nodes.process.node_tasks import start_task
from steersman_cluster.nodes.process.pod_resources import MountError, PodResources
from steersman_cluster.objects import dig, name_of, namespace_of

__all__ = ["PodPreparation"]

_ADDRESSES: Final = count(1)
"""The numbers of Pod addresses, unique in this process, because all its clusters share the loopback network."""
_log = get_logger("nodes")


class PodPreparation:
    """Prepares the Pods of a node."""

    def __init__(
        self,
        agent: Agent,
        images: Images,
        data: Path,
        reader: ApiReader,
        memory: MemoryVolumes | None,
        network: ClusterNetwork | None,
        resources: dict[str, PodResources],
        network_changed: Callable[[], None],
    ) -> None:
        """Create the preparation for the Pods of a node.

        Args:
            agent: Receives the results.
            images: The known images, for volumes that show one.
            data: The directory of the node.
            reader: Reads the objects that volumes show.
            memory: Holds the volumes of medium Memory, where it can.
            network: The network of the Pods; `None` if they share the network of the machine.
            resources: The resources of the node's Pods by UID; new ones are added.
            network_changed: Called when a Pod has received or lost its address.
        """
        self._agent = agent
        self._images = images
        self._data = data
        self._reader = reader
        self._memory = memory
        self._network = network
        self._resources = resources
        self._network_changed = network_changed

    def new_resources(self, node_pod: NodePod) -> PodResources:
        """Return the resources of a new Pod, before they are created."""
        registration = self._agent.registrations[node_pod.node]
        host = registration.info.address
        if self._network is not None:
            ip = ""  # The Pod is attached when it is prepared.
        elif node_pod.pod_state.spec.get("hostNetwork"):
            ip = host
        else:
            number = next(_ADDRESSES)
            ip = f"127.{16 + os.getpid() % 200}.{number >> 8 & 255}.{number & 255}"
        facts = Facts(
            node_pod.pod_state.pod, ip=ip, host_ip=host, node=node_pod.node, allocatable=registration.info.capacity
        )
        directory = self._data / "pods" / node_pod.uid
        resources = PodResources(
            facts, directory, self._data / "volumes", self._agent.clock, self._images, self._memory
        )
        self._resources[node_pod.uid] = resources
        return resources

    async def _attach(self, node_pod: NodePod, resources: PodResources) -> None:
        """Attach a Pod to the network; raises `OSError`."""
        if self._network is None or resources.attachment is not None:
            return
        if node_pod.pod_state.spec.get("hostNetwork"):
            resources.attachment = self._network.attachment(resources.facts.host_ip)
            resources.facts.ip = resources.facts.host_ip
            return
        resources.attachment = self._network.add_pod(node_pod.node)
        resources.facts.ip = resources.attachment.address
        self._network_changed()
        containers = node_pod.pod_state.spec.get("containers") or ()
        self._network.set_host_ports(resources.facts.ip, node_pod.node, containers)

    def detach(self, resources: PodResources) -> None:
        """Detach a Pod from the network."""
        if self._network is None or resources.attachment is None:
            return
        attachment, resources.attachment = resources.attachment, None
        if not dig(resources.pod, "spec", "hostNetwork", default=False):
            with suppress(OSError):
                self._network.remove_pod(attachment)
                self._network_changed()

    async def prepare(self, node_pod: NodePod, resources: PodResources) -> None:
        """Create the network and the volumes of a Pod, and report the result to the agent."""
        try:
            await self._attach(node_pod, resources)
            await resources.make(self._reader)
        except MountError as problem:
            self._agent.post(node_pod.uid, NotPrepared("FailedMount", str(problem)))
        except (ClientError, OSError) as problem:
            self._agent.post(
                node_pod.uid, NotPrepared("FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}")
            )
        else:
            if resources.renew_at is not None:
                start_task(resources.tasks, self._renew_tokens(resources), f"tokens of {node_pod.name}")
            self._agent.post(node_pod.uid, Prepared(resources.facts.ip))

    async def _renew_tokens(self, resources: PodResources) -> None:
        while (at := resources.renew_at) is not None:
            await asyncio.sleep(max(5.0, at - self._agent.clock()))
            self.refresh(resources)

    def source_changed(self, kind: str, namespace: str, name: str) -> None:
        """Update the volumes that contain a ConfigMap or Secret."""
        for resources in self._resources.values():
            if (kind, name) in resources.references and namespace_of(resources.pod) == namespace:
                self.refresh(resources)

    def refresh(self, resources: PodResources) -> None:
        """Start to update the files of a Pod's volumes, after an update that already runs."""

        async def refresh() -> None:
            try:
                await asyncio.sleep(0)
                await resources.refresh(self._reader)
            except (ClientError, OSError) as problem:
                _log.warning("volume_refresh_failed", pod=name_of(resources.pod), problem=str(problem))

        previous = resources.refreshing

        async def after() -> None:
            if previous is not None and not previous.done():
                await asyncio.wait([previous])
            await refresh()

        resources.refreshing = start_task(resources.tasks, after(), f"refresh {name_of(resources.pod)}")
