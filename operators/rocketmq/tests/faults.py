"""Faults of a broker group that a seed chooses, in sequence; each is healed before the next one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

__all__ = ["OF_ALL", "Fault", "FaultKind", "faults_of"]

FAULTS = 2
"""Faults of one seed."""


class FaultKind(Enum):
    KILL = "kill -9 of"
    PAUSE = "SIGSTOP of"
    PARTITION = "partition of"
    PARTITION_OUT = "loss of packets from"
    PARTITION_IN = "loss of packets to"
    RESTART = "rolling restart"
    UPGRADE = "upgrade or rollback"
    NAME_SERVERS = "replacement of the name servers"


OF_ALL = (FaultKind.RESTART, FaultKind.UPGRADE, FaultKind.NAME_SERVERS)
"""Changes of the spec, which concern all members; they end when the operator has performed them."""


@dataclass(frozen=True)
class Fault:
    """One fault."""

    kind: FaultKind
    of_master: bool
    """Whether the fault hits the master; otherwise it hits another member."""
    seconds: float
    """Time until the fault is healed."""
    operator_killed_after: float | None
    """Time until the operator is killed and restarted; `None` if it keeps running."""

    def __str__(self) -> str:
        victim = "" if self.kind in OF_ALL else " the master" if self.of_master else " a replica"
        lasts = "" if self.kind in (*OF_ALL, FaultKind.KILL) else f" for {self.seconds:.1f} s"
        after = self.operator_killed_after
        killed = "" if after is None else f", operator killed after {min(after, self.seconds):.1f} s"
        return f"{self.kind.value}{victim}{lasts}{killed}"


def faults_of(seed: int, count: int = FAULTS, longest_seconds: float = 15) -> tuple[Fault, ...]:
    """Return the faults of a seed; two thirds of them concern the master."""
    chosen = random.Random(seed)
    return tuple(
        Fault(
            kind=chosen.choice(tuple(FaultKind)),
            of_master=chosen.random() < 2 / 3,
            seconds=chosen.uniform(0.5, longest_seconds),
            operator_killed_after=chosen.uniform(0, 5) if chosen.random() < 0.5 else None,
        )
        for _ in range(count)
    )
