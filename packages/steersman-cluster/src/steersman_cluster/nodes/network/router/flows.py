"""Connections through Services: address translation of their packets in both directions, as conntrack does."""

from __future__ import annotations

from dataclasses import dataclass, field

from .packets import TCP, ends_connection, reply_key, starts_connection
from .services import Endpoint, Services

__all__ = ["HAIRPIN_ADDRESS", "Flows", "Refused"]

HAIRPIN_ADDRESS = bytes((169, 254, 77, 77))
"""The client address that a Pod sees when it reaches itself through a Service."""
TCP_IDLE_SECONDS = 7200.0
CLOSED_SECONDS = 60.0
UDP_IDLE_SECONDS = 60.0
MAX_FLOWS = 65536


class Refused(Exception):  # noqa: N818 - the outcome of a lookup, not a failure of this program
    """The Service has no endpoint for this client."""


@dataclass(slots=True)
class Flow:
    """One connection, or one exchange of datagrams."""

    key: bytes
    """The key of the client's packets."""
    translated: bytes
    used: float
    endpoint: Endpoint
    service: bytes
    closed: set[bytes] = field(default_factory=set[bytes])
    """The keys of the directions that have ended."""


class Flows:
    """The table of flows. `translation` is called for every packet."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._table: dict[bytes, tuple[bytes, Flow]] = {}

    def __len__(self) -> int:
        return len(self._table) // 2

    def translation(self, packet: bytes, key: bytes, node: str, now: float) -> tuple[bytes, bool] | None:
        """Return the translated key of a packet, and whether it is a reply; `None` if it is not translated.

        Raises `Refused`.
        """
        found = self._table.get(key)
        if found is not None:
            translated, flow = found
            if flow.key != key or not self._stale(packet, flow):
                flow.used = now
                if key[0] == TCP and ends_connection(packet):
                    flow.closed.add(key)
                return translated, flow.key != key
            self._remove(flow)
        service = key[0:1] + key[5:9] + key[11:13]
        return (self._open(key, service, node, now), False) if self._services.get(service) is not None else None

    def _stale(self, packet: bytes, flow: Flow) -> bool:
        """Return whether a packet of the client starts a new connection."""
        if flow.key[0] == TCP:
            if not starts_connection(packet):
                return False
            if flow.closed:
                return True
        service = self._services.get(flow.service)
        return service is None or flow.endpoint not in service.endpoints

    def _open(self, key: bytes, service: bytes, node: str, now: float) -> bytes:
        client = key[1:5]
        endpoint = self._services.choose(service, client, node, now)
        if endpoint is None:
            raise Refused
        source = HAIRPIN_ADDRESS if endpoint.address == client else client
        translated = key[0:1] + source + endpoint.address + key[9:11] + endpoint.port
        if len(self) >= MAX_FLOWS:
            self._remove(min((flow for _, flow in self._table.values()), key=lambda flow: flow.used))
        flow = Flow(key, translated, now, endpoint, service)
        self._table[key] = (translated, flow)
        self._table[reply_key(translated)] = (reply_key(key), flow)
        return translated

    def _remove(self, flow: Flow) -> None:
        self._table.pop(flow.key, None)
        self._table.pop(reply_key(flow.translated), None)

    def expire(self, now: float) -> None:
        """Remove flows that have been idle for too long."""
        for key, (_, flow) in list(self._table.items()):
            idle = now - flow.used
            limit = TCP_IDLE_SECONDS if key[0] == TCP else UDP_IDLE_SECONDS
            if idle > limit or (len(flow.closed) == 2 and idle > CLOSED_SECONDS):
                self._remove(flow)
