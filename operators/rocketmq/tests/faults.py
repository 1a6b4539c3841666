"""Faults of a broker group that a seed chooses, in sequence; each is healed before the next one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

__all__ = ["Fault", "FaultKind", "faults_of"]


class FaultKind(Enum):
    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    PARTITION = "partition"
    RESTART = "rolling restart"


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
        victim = "the master" if self.of_master else "a replica"
        killed = (
            "" if self.operator_killed_after is None else f", operator killed after {self.operator_killed_after:.1f} s"
        )
        return f"{self.kind.value} of {victim} for {self.seconds:.1f} s{killed}"


def faults_of(seed: int, count: int, longest_seconds: float = 15) -> tuple[Fault, ...]:
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
