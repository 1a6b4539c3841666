"""Host ports for processes of the same node: listeners in the network namespace of the node.

Packets from other namespaces pass through the router, which sends them to the Pod. Packets from a node to its own
address stay in its namespace, so a listener there accepts them and forwards the bytes to the Pod.
"""

from __future__ import annotations

import socket
from typing import Final, Protocol

from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.network.control import SocketKind
from steersman_cluster.nodes.network.forwarder import KINDS, Forwarder, ForwardingNetwork, forward
from steersman_cluster.objects import Object

__all__ = ["open_host_ports"]

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with the field
_log = get_logger("nodes")


class Network(ForwardingNetwork, Protocol):
    """The network of the cluster."""

    def listener(self, kind: SocketKind, address: str, port: int, *, within: str = "") -> socket.socket:
        """Return a bound socket of the namespace with an address."""
        ...


def open_host_ports(network: Network, node: str, pod: str, port: Object) -> list[Forwarder]:
    """Open a container port's host port at the addresses of its node; a port in use is logged and skipped.

    Args:
        network: The network of the cluster.
        node: The address of the node.
        pod: The address of the Pod.
        port: The entry in the container's `ports`.
    """
    kind = KINDS.get(port.get("protocol") or "TCP")
    if kind is None:
        return []
    wanted = port.get("hostIP") or ""
    target = (pod, int(port["containerPort"]))
    opened: list[Forwarder] = []
    for address in (node, "127.0.0.1") if wanted in _ANY_ADDRESS else (wanted,):
        try:
            listener = network.listener(kind, address, int(port["hostPort"]), within=node)
        except OSError as problem:
            _log.warning("host_port_unavailable", address=address, port=port["hostPort"], problem=str(problem))
            continue
        opened.append(forward(kind, listener, network, target, node))
    return opened
