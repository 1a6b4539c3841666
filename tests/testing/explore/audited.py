"""Prints the audit log of a simulation and the trace of a run with a crash, for a comparison between Pythons.

python -m tests.testing.explore.audited SEED
"""

from __future__ import annotations

import sys

from steersman.testing.explore import Outcome, Plan, ScenarioRun, explored, replay
from steersman.testing.simulation import Simulation, simulated

from .planted import CLASSES, app

CRASH = "crash-after:W2"


async def life(run: ScenarioRun) -> None:
    """Create a workload with claims, and scale it down."""
    await run.operator(lambda: CLASSES["stale_pods"](True))
    await run.apply(app(2))
    await run.settled()
    await run.apply(app(1))
    await run.settled()


def audit_log(seed: int) -> list[str]:
    """Return the audit log of a simulation in which an operator works for ten minutes."""
    lines: list[str] = []

    @simulated(seed=seed)
    async def simulation(simulation: Simulation) -> None:
        operator = await simulation.operator(CLASSES["stale_pods"](True))
        for replicas in (3, 1):
            await simulation.apply(app(replicas))
            await simulation.passes(minutes=5)
        await operator.stop()
        lines.extend(simulation.audit())

    simulation()
    return lines


def trace(seed: int) -> list[str]:
    """Return the trace of a run in which the operator crashes."""
    outcome: Outcome = replay(explored(jobs=1)(life).explored.request(), Plan.read(CRASH), seed)[1]
    found = outcome.trace
    records = (*found.writes, *found.events, *found.commits, *found.reconciles, *found.marks)
    return [repr(record) for record in records]


if __name__ == "__main__":
    print("\n".join(audit_log(int(sys.argv[1])) + trace(int(sys.argv[1]))))
