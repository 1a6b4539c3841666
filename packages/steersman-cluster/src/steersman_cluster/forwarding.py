"""Ports of Pods on loopback of this machine, for programs that cannot speak the API's port-forward."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from steersman.client.local_port import LocalPort
from steersman_cluster.cluster import DevCluster
from steersman_cluster.errors import APIError, not_found
from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.forwarder import join

__all__ = ["connect", "forward"]


async def connect(cluster: DevCluster, namespace: str, pod: str, port: int) -> Connection:
    """Connect to a port of a Pod, as port-forward does. Raises `APIError`."""
    held = cluster.nodes.agent.find(namespace, pod) if cluster.nodes is not None else None
    kubelet = cluster.server.kubelets.find(held.node) if held is not None else None
    if kubelet is None:
        raise not_found("", "pods", pod)
    return await kubelet.connect(namespace, pod, port)


async def forward(cluster: DevCluster, namespace: str, pod: str, port: int) -> LocalPort:
    """Listen on a free port of 127.0.0.1; each connection goes to the Pod that has the name by then.

    A connection is closed at once while there is no such Pod, or nothing listens in it.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(APIError, OSError):
            await join((reader, writer), await connect(cluster, namespace, pod, port))

    return await LocalPort.open(serve)
