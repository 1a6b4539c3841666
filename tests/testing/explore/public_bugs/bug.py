"""A public bug, and the exploration that finds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from steersman import Operator
from steersman.testing.explore import ScenarioRun, State, explored
from steersman.testing.explore.decorator import Explored

__all__ = ["Bug", "exploration"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug of a public issue.

    Args:
        issue: The address of the issue.
        reported_by: The tool that found it: `Sieve` or `Acto`.
        operator: Returns the correct operator, or the one with the bug.
        scenario: What happens after the operator runs.
        perturb: The kinds of faults of the exploration.
        always: The invariants.
        ignore: Resources that are not compared.
        allow: The kinds of findings that do not count. An API server that is behind lets any operator write a former
            state, so only the invariants count.
    """

    issue: str
    reported_by: str
    operator: Callable[[bool], Operator]
    scenario: Callable[[ScenarioRun], Awaitable[None]]
    perturb: tuple[str, ...]
    always: tuple[Callable[[State], object], ...] = field(default=())
    ignore: tuple[str, ...] = field(default=())
    allow: tuple[str, ...] = field(default=())


def exploration(bug: Bug, *, correct: bool, **options: Any) -> Explored:
    """Return the exploration of a bug, or of its correct twin."""

    async def life(run: ScenarioRun) -> None:
        await run.operator(lambda: bug.operator(correct))
        await bug.scenario(run)

    test = explored(jobs=1, perturb=bug.perturb, ignore=bug.ignore, allow=bug.allow, **options)(life)
    for invariant in bug.always:
        test.always(invariant)
    return test.explored
