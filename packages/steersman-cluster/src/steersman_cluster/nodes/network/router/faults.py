"""Faults of the network: rules that drop or delay packets between sets of addresses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Faults", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to packets from a source to a destination; an empty set stands for every address."""

    sources: frozenset[bytes]
    destinations: frozenset[bytes]
    drop: float = 0.0
    """The share of packets that is lost, 0 to 1."""
    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    """Added to the delay at random, between 0 and this."""

    def applies(self, source: bytes, destination: bytes) -> bool:
        """Return whether the rule is about these addresses."""
        return (not self.sources or source in self.sources) and (
            not self.destinations or destination in self.destinations
        )


def rule_of(fields: Mapping[str, Any]) -> Rule:
    """Return the rule that a control message describes."""
    return Rule(
        frozenset(map(bytes.fromhex, fields["sources"])),
        frozenset(map(bytes.fromhex, fields["destinations"])),
        float(fields["drop"]),
        float(fields["delay_seconds"]),
        float(fields["jitter_seconds"]),
    )


class Faults:
    """The rules that hold at present."""

    def __init__(self, gateway: bytes, rng: random.Random) -> None:
        self._gateway = gateway
        self.rules: tuple[Rule, ...] = ()
        self._rng = rng

    def delay(self, source: bytes, destination: bytes) -> float | None:
        """Return the seconds by which a packet is late; `None` for a packet that is lost.

        Packets from and to the gateway are never affected: they belong to the nodes' own probes.
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
