"""The ports of the router: TUN devices by address, delayed packets, and sockets in namespaces."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from . import namespaces
from .routing import Delivery, Router

__all__ = ["Devices", "Port"]

MAX_PACKET_BYTES = 65536
MAX_WAITING = 100_000
"""The greatest number of delayed packets; more are dropped, as by a full queue."""
_BATCH = 64
"""The number of packets that are read from one device before the next one is served."""


@dataclass(frozen=True, slots=True)
class Port:
    """A namespace with its device and addresses."""

    namespace: int
    device: int
    addresses: frozenset[bytes]


class Devices:
    """All ports; moves packets between them by the decisions of `router`."""

    def __init__(self, router: Router, home: int) -> None:
        self.router = router
        self.home = home
        self.ports: dict[int, Port] = {}
        """The ports by device."""
        self._by_address: dict[bytes, Port] = {}
        self._waiting: list[tuple[float, int, Delivery]] = []
        self._numbers = itertools.count()

    def add(self, namespace: int, device: int, addresses: Sequence[bytes], node: str) -> Port:
        """Add a port with its addresses."""
        port = Port(namespace, device, frozenset(addresses))
        self.ports[device] = port
        for address in addresses:
            self._by_address[address] = port
            self.router.nodes[address] = node
        return port

    def remove(self, address: bytes) -> int | None:
        """Close the port of an address; returns its closed device, or `None` if there is none."""
        port = self._by_address.get(address)
        if port is None:
            return None
        del self.ports[port.device]
        for one in port.addresses:
            del self._by_address[one]
            self.router.nodes.pop(one, None)
        os.close(port.device)
        if port.namespace != self.home:
            os.close(port.namespace)
        return port.device

    def receive(self, device: int, now: float) -> None:
        """Route the pending packets of a device."""
        port = self.ports.get(device)
        if port is None:
            return
        for _ in range(_BATCH):
            try:
                packet = os.read(device, MAX_PACKET_BYTES)
            except OSError:
                return
            delivery = self.router.route(packet, port.addresses, now)
            if delivery is None:
                continue
            if not delivery.delay:
                self._send(delivery)
            elif len(self._waiting) < MAX_WAITING:
                heapq.heappush(self._waiting, (now + delivery.delay, next(self._numbers), delivery))

    def flush(self, now: float) -> float | None:
        """Send the delayed packets that are due; return the seconds until the next one is due."""
        while self._waiting and self._waiting[0][0] <= now:
            self._send(heapq.heappop(self._waiting)[2])
        return self._waiting[0][0] - now if self._waiting else None

    def _send(self, delivery: Delivery) -> None:
        port = self._by_address.get(delivery.address)
        if port is not None:
            with contextlib.suppress(OSError):  # A full queue, or a device that is down.
                os.write(port.device, delivery.packet)

    def open_socket(
        self, within: bytes | None, kind: int, bound: tuple[str, int] | None, *, listen: bool
    ) -> socket.socket:
        """Return a socket in the namespace of an address, or in that of the cluster; raises `OSError`."""
        namespace = self.home if within is None else self._namespace(within)
        context = contextlib.nullcontext() if within is None else namespaces.entered(namespace, self.home)
        with context:
            made = socket.socket(socket.AF_INET, kind)
        try:
            if listen:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if bound is not None:
                made.bind(bound)
            if listen and kind == socket.SOCK_STREAM:
                made.listen(128)
        except BaseException:
            made.close()
            raise
        return made

    def _namespace(self, address: bytes) -> int:
        port = self._by_address.get(address)
        if port is None:
            raise OSError(113, f"{socket.inet_ntoa(address)} is no address of a Pod or node")
        return port.namespace
