"""Services in the router: an address and port with several endpoints."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Endpoint", "Service", "Services"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address (4 bytes) and port (2 bytes) of a Pod, and the Pod's node."""

    address: bytes
    port: bytes
    node: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """One port of a Service at one address."""

    endpoints: tuple[Endpoint, ...] = ()
    affinity_seconds: float = 0.0
    """Seconds for which a client keeps its endpoint; 0 without session affinity."""
    local: bool = False
    """Whether only endpoints on the client's node are used."""


def service_of(fields: Mapping[str, Any]) -> Service:
    """Return the Service in a control message."""
    endpoints = tuple(
        Endpoint(bytes.fromhex(address), int(port).to_bytes(2), node) for address, port, node in fields["endpoints"]
    )
    return Service(endpoints, float(fields["affinity_seconds"]), bool(fields["local"]))


class Services:
    """All Services by protocol, address and port (7 bytes), with the choice of endpoints."""

    def __init__(self, rng: random.Random) -> None:
        self.by_name: dict[str, dict[bytes, Service]] = {}
        self._table: dict[bytes, Service] = {}
        self._addresses: dict[bytes, int] = {}
        self._clients: dict[tuple[bytes, bytes], tuple[Endpoint, float]] = {}
        self._rng = rng

    def __contains__(self, address: bytes) -> bool:
        return address in self._addresses

    def get(self, key: bytes) -> Service | None:
        """Return the Service of a protocol, address and port."""
        return self._table.get(key)

    def set(self, name: str, entries: Mapping[bytes, Service]) -> None:
        """Replace all entries of one Service; an empty mapping removes it."""
        for key in self.by_name.pop(name, {}):
            self._table.pop(key, None)
            address = key[1:5]
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]
        if entries:
            self.by_name[name] = dict(entries)
        for key, service in entries.items():
            self._table[key] = service
            self._addresses[key[1:5]] = self._addresses.get(key[1:5], 0) + 1

    def choose(self, key: bytes, client: bytes, node: str, now: float) -> Endpoint | None:
        """Return the endpoint for a new connection of a client on a node; `None` if there is none."""
        service = self._table.get(key)
        if service is None:
            return None
        usable = [one for one in service.endpoints if not service.local or one.node == node]
        if not usable:
            return None
        if service.affinity_seconds:
            known = self._clients.get((key, client))
            if known is not None and known[0] in usable and now - known[1] < service.affinity_seconds:
                self._clients[key, client] = (known[0], now)
                return known[0]
        chosen = self._rng.choice(usable)
        if service.affinity_seconds:
            self._clients[key, client] = (chosen, now)
        return chosen

    def expire(self, now: float, seconds: float = 24 * 3600.0) -> None:
        """Remove the affinity of clients that have not connected for this number of seconds."""
        for key, (_, used) in list(self._clients.items()):
            if now - used > seconds:
                del self._clients[key]
