"""Host ports as processes of their own node reach them: listeners in the node's network namespace.

Packets from other namespaces pass through the router, which sends them to the Pod. Packets from a node to an address of
that node never leave its namespace, so a listener there accepts them and passes the bytes on to the Pod.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from steersman.telemetry.log import get_logger
from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.control import SocketKind
from steersman_cluster.objects import Object

__all__ = ["HostPort", "join", "open_host_ports"]

_CHUNK_BYTES: Final = 64 * 1024
_MAX_PEERS: Final = 256
"""Senders of datagrams to one host port; the oldest one is forgotten."""
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with the field
_KINDS: Final[dict[str, SocketKind]] = {"TCP": "tcp", "UDP": "udp"}
_log = get_logger("nodes")


class Network(Protocol):
    """The network of the cluster."""

    def socket(self, kind: SocketKind = "tcp", *, within: str = "") -> socket.socket:
        """Return a socket of the namespace with an address."""
        ...

    def listener(self, kind: SocketKind, address: str, port: int, *, within: str = "") -> socket.socket:
        """Return a bound socket of the namespace with an address."""
        ...

    async def connect(self, host: str, port: int, *, within: str = "") -> Connection:
        """Connect from the namespace with an address."""
        ...


class HostPort:
    """An open host port at one address of a node."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def close(self) -> None:
        """Close the listener and all connections."""
        self._close()


async def open_host_ports(network: Network, node: str, pod: str, port: Object) -> list[HostPort]:
    """Open a container port's host port at the addresses of its node; one that is in use is logged and left out.

    Args:
        network: The network of the cluster.
        node: The address of the node.
        pod: The address of the Pod.
        port: The entry in the container's `ports`.
    """
    kind = _KINDS.get(port.get("protocol") or "TCP")
    if kind is None:
        return []
    wanted = port.get("hostIP") or ""
    target = (pod, int(port["containerPort"]))
    opened: list[HostPort] = []
    for address in (node, "127.0.0.1") if wanted in _ANY_ADDRESS else (wanted,):
        try:
            listener = network.listener(kind, address, int(port["hostPort"]), within=node)
        except OSError as problem:
            _log.warning("host_port_unavailable", address=address, port=port["hostPort"], problem=str(problem))
            continue
        opened.append(await (_stream if kind == "tcp" else _datagrams)(network, node, listener, target))
    return opened


async def _stream(network: Network, node: str, listener: socket.socket, target: tuple[str, int]) -> HostPort:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await join((reader, writer), await network.connect(*target, within=node))
        except (OSError, asyncio.CancelledError):
            pass  # the listener has closed, or the Pod does not answer
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, sock=listener)

    def close() -> None:
        server.close()
        for task in tasks:
            task.cancel()

    return HostPort(close)


async def join(one: Connection, other: Connection) -> None:
    """Pass bytes both ways until both sides have ended; closes both connections."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    try:
        await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))
    finally:
        one[1].close()
        other[1].close()


async def _datagrams(network: Network, node: str, listener: socket.socket, target: tuple[str, int]) -> HostPort:
    loop = asyncio.get_running_loop()
    peers: dict[tuple[str, int], asyncio.DatagramTransport] = {}

    async def forward() -> None:
        while True:
            data, peer = await loop.sock_recvfrom(listener, 65536)
            transport = peers.get(peer)
            if transport is None:
                if len(peers) >= _MAX_PEERS:
                    peers.pop(next(iter(peers))).close()
                transport, _ = await loop.create_datagram_endpoint(
                    lambda peer=peer: _Responses(listener, peer), sock=network.socket("udp", within=node)
                )
                peers[peer] = transport
            transport.sendto(data, target)

    task = loop.create_task(forward(), name=f"host port of {target[0]}")

    def close() -> None:
        task.cancel()
        for transport in peers.values():
            transport.close()
        listener.close()

    return HostPort(close)


class _Responses(asyncio.DatagramProtocol):
    """Sends the responses of the Pod back to a peer."""

    def __init__(self, listener: socket.socket, peer: tuple[str, int]) -> None:
        self._listener = listener
        self._peer = peer

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Send a response."""
        with suppress(OSError):
            self._listener.sendto(data, self._peer)
