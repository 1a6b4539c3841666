"""Ports of Pods on loopback of this machine, for programs that cannot speak the API's port-forward."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from steersman_cluster.cluster import DevCluster
from steersman_cluster.errors import APIError, not_found
from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.cluster_network import join

__all__ = ["Forwarding", "connect", "forward"]


async def connect(cluster: DevCluster, namespace: str, pod: str, port: int) -> Connection:
    """Connect to a port of a Pod, as port-forward does. Raises `APIError`."""
    held = cluster.nodes.agent.find(namespace, pod) if cluster.nodes is not None else None
    kubelet = cluster.server.kubelets.find(held.node) if held is not None else None
    if kubelet is None:
        raise not_found("", "pods", pod)
    return await kubelet.connect(namespace, pod, port)


class Forwarding:
    """A port of this machine that leads to a port of a Pod."""

    def __init__(self, server: asyncio.Server, connections: set[asyncio.Task[None]]) -> None:
        """Use a server that listens, and the tasks of its connections."""
        self._server = server
        self._connections = connections

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


async def forward(cluster: DevCluster, namespace: str, pod: str, port: int) -> Forwarding:
    """Listen on a free port of 127.0.0.1; each connection goes to the Pod that has the name by then.

    A connection is closed at once while there is no such Pod, or nothing listens in it.
    """
    connections: set[asyncio.Task[None]] = set()

    async def forwarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(APIError, OSError):
                await join((reader, writer), await connect(cluster, namespace, pod, port))
        finally:
            writer.close()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(forwarded(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    return Forwarding(await asyncio.start_server(accepted, "127.0.0.1", 0), connections)
