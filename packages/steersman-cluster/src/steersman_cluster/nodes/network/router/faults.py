"""Faults of the network: rules that drop or delay packets between sets of addresses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Faults", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault of packets from sources to destinations; an empty set matches each address."""

    sources: frozenset[bytes]
    destinations: frozenset[bytes]
    drop: float = 0.0
    """The share of packets that are dropped, from 0 to 1."""
    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    """The greatest random addition to the delay."""

    def applies(self, source: bytes, destination: bytes) -> bool:
        """Return whether the rule applies to these addresses."""
        return (not self.sources or source in self.sources) and (
            not self.destinations or destination in self.destinations
        )


def rule_of(fields: Mapping[str, Any]) -> Rule:
    """Return the rule in a control message."""
    return Rule(
        frozenset(map(bytes.fromhex, fields["sources"])),
        frozenset(map(bytes.fromhex, fields["destinations"])),
        float(fields["drop"]),
        float(fields["delay_seconds"]),
        float(fields["jitter_seconds"]),
    )


class Faults:
    """The active rules."""

    def __init__(self, gateway: bytes, rng: random.Random) -> None:
        self._gateway = gateway
        self.rules: tuple[Rule, ...] = ()
        self._rng = rng

    def delay(self, source: bytes, destination: bytes) -> float | None:
        """Return the delay of a packet in seconds; `None` for a dropped packet.

        Packets from and to the gateway are never affected, because they belong to probes of the nodes.
        """
        total = 0.0
        if self._gateway in (source, destination):
            return total
        for rule in self.rules:
            if rule.applies(source, destination):
                if rule.drop and (rule.drop >= 1 or self._rng.random() < rule.drop):
                    return None
                total += rule.delay_seconds
                if rule.jitter_seconds:
                    total += self._rng.random() * rule.jitter_seconds
        return total
