"""Node ports as programs of this machine reach them: listeners on its loopback address.

Inside the cluster's network the router serves node ports at the addresses of the nodes, which this machine does not
have. A listener at `127.0.0.1` forwards to one of them while the cluster runs.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.network.control import SocketKind
from steersman_cluster.nodes.network.forwarder import KINDS, Forwarder, ForwardingNetwork, forward
from steersman_cluster.nodes.network.services import ServiceName
from steersman_cluster.objects import Object, dig

__all__ = ["NodePorts", "node_ports_of"]

_LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 128
_Port = tuple[SocketKind, int]
_log = get_logger("network")


class NodePorts:
    """The listeners of all node ports. A port that another program has is logged and tried again with the next change.

    Args:
        network: The network of the cluster.
        node: The address of a node, which the router serves all node ports at.
    """

    def __init__(self, network: ForwardingNetwork, node: str) -> None:
        self._network = network
        self._node = node
        self._wanted: dict[ServiceName, frozenset[_Port]] = {}
        self._open: dict[_Port, Forwarder] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, name: ServiceName, ports: Iterable[_Port]) -> None:
        """Set the node ports of a Service; none closes its listeners."""
        wanted = frozenset(ports)
        if wanted == self._wanted.get(name, frozenset()):
            return
        self._wanted[name] = wanted
        if not wanted:
            del self._wanted[name]
        self._changed.set()

    def start(self) -> None:
        """Open the listeners, and follow changes until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="node ports")

    async def close(self) -> None:
        """Close all listeners and their connections. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        while self._open:
            self._open.popitem()[1].close()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = frozenset[_Port]().union(*self._wanted.values())
            for port in self._open.keys() - wanted:
                self._open.pop(port).close()
            for port in sorted(wanted - self._open.keys()):
                try:
                    listener = _listener(*port)
                except OSError as problem:
                    _log.warning("node_port_unavailable", address=_LOOPBACK, port=port[1], problem=str(problem))
                    continue
                self._open[port] = forward(port[0], listener, self._network, (self._node, port[1]))


def node_ports_of(service: Object | None) -> set[_Port]:
    """Return the node ports of a Service."""
    found: set[_Port] = set()
    ports: list[Object] = dig(service or {}, "spec", "ports", default=[])
    for port in ports:
        kind = KINDS.get(port.get("protocol") or "TCP")
        if kind is not None and port.get("nodePort"):
            found.add((kind, int(port["nodePort"])))
    return found


def _listener(kind: SocketKind, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    try:
        if kind == "tcp":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_LOOPBACK, port))
        if kind == "tcp":
            made.listen(_BACKLOG)
        made.setblocking(False)  # noqa: FBT003 - a positional parameter of sockets
    except BaseException:
        made.close()
        raise
    return made
