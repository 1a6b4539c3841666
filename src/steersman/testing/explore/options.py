"""The options of the runs of an exploration."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run.

    Args:
        latency: Virtual seconds that each request of the operator takes.
        stabilization: Virtual seconds without a change after which the cluster counts as settled.
        within: Virtual seconds after which a run that has not settled is a finding.
        hot_writes: Writes to one object within a virtual minute that count as a hot loop.
    """

    latency: float = 0.001
    stabilization: float = 10.0
    within: float = 900.0
    hot_writes: int = 100
