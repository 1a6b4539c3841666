"""Forwarding of connections and datagrams from a socket that listens to an address in the cluster's network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from steersman.client.local_port import LocalPort
from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.control import SocketKind

__all__ = ["KINDS", "Forwarder", "ForwardingNetwork", "forward", "join"]

_CHUNK_BYTES: Final = 64 * 1024
_MAX_PEERS: Final = 256
"""Senders of datagrams to one socket; the oldest one is forgotten."""
KINDS: Final[dict[str, SocketKind]] = {"TCP": "tcp", "UDP": "udp"}
"""The kinds of sockets by the protocol of a port."""


class ForwardingNetwork(Protocol):
    """The network of the cluster."""

    def socket(self, kind: SocketKind = "tcp", *, within: str = "") -> socket.socket:
        """Return a socket of the namespace with an address."""
        ...

    async def connect(self, host: str, port: int, *, within: str = "") -> Connection:
        """Connect from the namespace with an address."""
        ...


class Forwarder:
    """A socket whose connections or datagrams are forwarded."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def close(self) -> None:
        """Close the listener and all connections."""
        self._close()


def forward(
    kind: SocketKind, listener: socket.socket, network: ForwardingNetwork, target: tuple[str, int], within: str = ""
) -> Forwarder:
    """Forward what arrives at a socket to an address of the network.

    Args:
        kind: The kind of the socket.
        listener: A bound socket, which listens if it is TCP. The forwarder closes it.
        network: The network of the cluster.
        target: The address and port to connect to.
        within: The address of the namespace to connect from; that of the cluster by default.
    """
    if kind == "tcp":
        return _streams(network, within, listener, target)
    return _datagrams(network, within, listener, target)


def _streams(network: ForwardingNetwork, within: str, listener: socket.socket, target: tuple[str, int]) -> Forwarder:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # the target does not answer
            await join((reader, writer), await network.connect(*target, within=within))

    return Forwarder(LocalPort(serve, [listener]).stop)


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


def _datagrams(network: ForwardingNetwork, within: str, listener: socket.socket, target: tuple[str, int]) -> Forwarder:
    loop = asyncio.get_running_loop()
    peers: dict[tuple[str, int], asyncio.DatagramTransport] = {}

    async def receive() -> None:
        while True:
            data, peer = await loop.sock_recvfrom(listener, 65536)
            transport = peers.get(peer)
            if transport is None:
                if len(peers) >= _MAX_PEERS:
                    peers.pop(next(iter(peers))).close()
                transport, _ = await loop.create_datagram_endpoint(
                    lambda peer=peer: _Responses(listener, peer), sock=network.socket("udp", within=within)
                )
                peers[peer] = transport
            transport.sendto(data, target)

    task = loop.create_task(receive(), name=f"datagrams to {target[0]}")

    def close() -> None:
        task.cancel()
        for transport in peers.values():
            transport.close()
        listener.close()

    return Forwarder(close)


class _Responses(asyncio.DatagramProtocol):
    """Sends the responses of the target back to a peer."""

    def __init__(self, listener: socket.socket, peer: tuple[str, int]) -> None:
        self._listener = listener
        self._peer = peer

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Send a response."""
        with suppress(OSError):
            self._listener.sendto(data, self._peer)
