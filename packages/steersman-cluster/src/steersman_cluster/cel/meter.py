"""The cost of a running evaluation: the API server's units and limits, and a limit on memory.

Each expression may spend `PER_CALL_LIMIT`; the expressions of one object, policy or list of conditions share a
`Budget`. Units are counted as cel-go counts them, after each step. Go joins lists without copying and builds some texts
at a price that does not depend on their size; Python's lists and texts need memory at once, so that what grows is
counted before it is made, too.
"""

from __future__ import annotations

import threading
from typing import Final

__all__ = [
    "MATCH_CONDITIONS_BUDGET",
    "METER",
    "OBJECT_BUDGET",
    "PER_CALL_LIMIT",
    "Budget",
    "EvaluationCancelledError",
    "Meter",
    "grow",
    "measure",
]

PER_CALL_LIMIT: Final = 1_000_000
"""Units that one evaluation of an expression may spend."""
OBJECT_BUDGET: Final = 10_000_000
"""Units that the rules of one object, or the expressions of one policy and binding, may spend together."""
MATCH_CONDITIONS_BUDGET: Final = 2_500_000
"""Units that the match conditions of one webhook, or of one policy and binding, may spend together."""
GROWTH_LIMIT: Final = 20_000_000
"""Elements and characters that evaluations with one budget may make or visit beyond what units pay for."""
METER: Final = ""
"""The key of the meter among the variables: a name that no expression can use."""


class EvaluationCancelledError(Exception):
    """An expression exceeded its cost limit. Not a `CelError`, which `||` and `all` may absorb."""


class Budget:
    """The remaining budget of several expressions; negative after one of them exceeded it."""

    __slots__ = ("growth", "left")

    def __init__(self, units: int, growth: int = GROWTH_LIMIT) -> None:
        self.left = units
        self.growth = growth

    def spend(self, units: int) -> bool:
        """Take `units`; false where there are not as many, after which none are left."""
        self.left = self.left - units if units <= self.left else -1
        return self.left >= 0


class Meter:
    """Counts what one evaluation spends."""

    __slots__ = ("budget", "limit", "spent")

    def __init__(self, budget: Budget | None = None, limit: int = PER_CALL_LIMIT) -> None:
        self.budget = budget or Budget(limit)
        self.limit = limit
        self.spent = 0

    def charge(self, units: int) -> None:
        """Add units. Raises `EvaluationCancelledError` beyond the limit."""
        self.spent += units
        if self.spent > self.limit:
            raise EvaluationCancelledError


class _Running(threading.local):
    meter: Meter | None = None


_running: Final = _Running()


def measure(meter: Meter | None) -> Meter | None:
    """Make a meter the one that `grow` counts on, in this thread; return the one before."""
    before, _running.meter = _running.meter, meter
    return before


def grow(units: int) -> None:
    """Count elements or characters before they are made or compared.

    Raises `EvaluationCancelledError` where they are more than one budget may have.
    """
    if (meter := _running.meter) is not None:
        meter.budget.growth -= units
        if meter.budget.growth < 0:
            raise EvaluationCancelledError
