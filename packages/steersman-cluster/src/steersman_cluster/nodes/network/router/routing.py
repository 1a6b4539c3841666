"""Decides the destination of each packet from ports, Services, policies and faults, without devices and clocks."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .faults import Faults
from .flows import HAIRPIN_ADDRESS, Flows, Refused
from .packets import (
    HOST_UNREACHABLE,
    MIN_HEADER_BYTES,
    NET_UNREACHABLE,
    PORT_UNREACHABLE,
    flow_key,
    translate,
    unreachable,
)
from .policies import Policies
from .services import Services

__all__ = ["Delivery", "Router"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A packet for the port of an address, to send after `delay` seconds."""

    address: bytes
    packet: bytes
    delay: float = 0.0


class Router:
    """Routes packets; `gateway` is the source address of ICMP errors."""

    def __init__(self, gateway: bytes, rng: random.Random) -> None:
        self.gateway = gateway
        self.nodes: dict[bytes, str] = {}
        """The node of each known address."""
        self.services = Services(rng)
        self.flows = Flows(self.services)
        self.faults = Faults(gateway, rng)
        self.policies = Policies(frozenset([gateway, HAIRPIN_ADDRESS]))

    def route(self, packet: bytes, sources: frozenset[bytes], now: float) -> Delivery | None:
        """Return the delivery of a packet from the port with the addresses `sources`; `None` if it is dropped."""
        if len(packet) < MIN_HEADER_BYTES or packet[0] >> 4 != 4 or packet[12:16] not in sources:
            return None
        source, checked = packet[12:16], packet
        key = flow_key(packet)
        if key is not None:
            try:
                translated = self.flows.translation(packet, key, self.nodes.get(source, ""), now)
            except Refused:
                return self._error(packet, PORT_UNREACHABLE)
            if translated is not None:
                packet = translate(packet, translated[0])
                checked = checked if translated[1] else packet  # Policies apply to addresses of Pods, not of Services.
        destination = packet[16:20]
        if destination not in self.nodes:
            return self._unknown(packet, destination)
        if not self.policies.allow(checked, now):
            return None
        if not self.faults.rules:
            return Delivery(destination, packet)
        delay = self.faults.delay(source, destination)
        return Delivery(destination, packet, delay) if delay is not None else None

    def _unknown(self, packet: bytes, destination: bytes) -> Delivery | None:
        if destination[0] >= 224 or destination == HAIRPIN_ADDRESS:
            return None
        if destination in self.services:
            return self._error(packet, PORT_UNREACHABLE)
        return self._error(packet, HOST_UNREACHABLE if destination[0] == self.gateway[0] else NET_UNREACHABLE)

    def _error(self, packet: bytes, code: int) -> Delivery | None:
        error = unreachable(packet, self.gateway, code)
        return Delivery(packet[12:16], error) if error is not None else None
