"""NetworkPolicies in the router: the allowed packets, and the replies to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .packets import ICMP, flow_key, reply_key

__all__ = ["Policies", "Rule"]

IDLE_SECONDS = 7200.0
MAX_CONNECTIONS = 65536


@dataclass(frozen=True, slots=True)
class Rule:
    """Allowed addresses or networks (with exceptions), and allowed ports; `None` for all."""

    addresses: frozenset[bytes] | None
    networks: tuple[tuple[ipaddress.IPv4Network, tuple[ipaddress.IPv4Network, ...]], ...] = ()
    ports: tuple[tuple[int, int, int], ...] | None = None
    """Protocol, first and last port."""

    def allows(self, other: bytes, protocol: int, port: int) -> bool:
        """Return whether a packet from or to another address is allowed at its destination port."""
        if self.ports is not None and not any(p == protocol and a <= port <= z for p, a, z in self.ports):
            return False
        if self.addresses is None or other in self.addresses:
            return True
        address = ipaddress.IPv4Address(other)
        return any(address in net and not any(address in part for part in parts) for net, parts in self.networks)


def rules_of(fields: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Return the rules in a control message."""

    def network(text: str) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(text, strict=False)

    found: list[Rule] = []
    for one in fields:
        addresses = None if one["addresses"] is None else frozenset(map(bytes.fromhex, one["addresses"]))
        blocks = tuple(
            (network(text), tuple(network(part) for part in parts if ":" not in part))
            for text, parts in one["networks"]
            if ":" not in text
        )
        ports = None if one["ports"] is None else tuple((p, a, z) for p, a, z in one["ports"])
        found.append(Rule(addresses, blocks, ports))
    return tuple(found)


class Policies:
    """The rules of all Pods that a policy selects, and the allowed connections."""

    def __init__(self, exempt: frozenset[bytes]) -> None:
        self.ingress: dict[bytes, tuple[Rule, ...]] = {}
        self.egress: dict[bytes, tuple[Rule, ...]] = {}
        self._exempt = exempt
        """Addresses without policies: those of probes, and of Pods that connect to themselves."""
        self._selected: frozenset[bytes] = frozenset()
        """The Pods that a policy selects; all their packets are recorded, so that replies to them are recognised."""
        self._connections: dict[bytes, float] = {}

    def set(self, pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace all rules: the optional rules for `ingress` and `egress` by address in hexadecimal."""
        self.ingress = {bytes.fromhex(a): rules_of(r["ingress"]) for a, r in pods.items() if "ingress" in r}
        self.egress = {bytes.fromhex(a): rules_of(r["egress"]) for a, r in pods.items() if "egress" in r}
        self._selected = frozenset((*self.ingress, *self.egress))

    def allow(self, packet: bytes, now: float) -> bool:
        """Return whether a packet may pass; `packet` has the addresses of Pods."""
        source, destination = packet[12:16], packet[16:20]
        if not self._selected or (source not in self._selected and destination not in self._selected):
            return True
        if source in self._exempt or destination in self._exempt:
            return True
        key = flow_key(packet)
        if key is None:
            return packet[9] == ICMP  # ICMP errors belong to allowed connections.
        if reply_key(key) in self._connections:
            self._connections[reply_key(key)] = now
            return True
        outgoing, incoming = self.egress.get(source), self.ingress.get(destination)
        protocol, port = key[0], int.from_bytes(key[11:13])
        passes = (outgoing is None or any(rule.allows(destination, protocol, port) for rule in outgoing)) and (
            incoming is None or any(rule.allows(source, protocol, port) for rule in incoming)
        )
        if passes:
            if len(self._connections) >= MAX_CONNECTIONS:
                del self._connections[min(self._connections, key=lambda known: self._connections[known])]
            self._connections[key] = now
        return passes

    def expire(self, now: float) -> None:
        """Remove connections that have been idle for too long."""
        for key, used in list(self._connections.items()):
            if now - used > IDLE_SECONDS:
                del self._connections[key]
