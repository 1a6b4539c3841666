"""Plans: the faults of one run, as values with a text form.

A plan is a sequence of faults; its text joins them with `+`. Points of a run are numbered as in the reference run: `W3`
is the third write of the operator, `E5` the fifth event that it received, `S1` the end of the first `settled()` of the
scenario.

    crash-after:W3            the process crashes directly after the third write is stored
    hold:E5..S2               the watch of the fifth event is late until the second `settled()` ends
    crash-after:W1+conflict:W4
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["FAULT_KINDS", "PERTURBATIONS", "Fault", "Plan", "PlanError", "read_plans"]

FAULT_KINDS: Final = {
    "crash-before": "W",
    "crash-after": "W",
    "lose-answer": "W",
    "conflict": "W",
    "pause": "W",
    "past": "W",
    "hold": "E",
    "miss": "E",
    "absent": "S",
}
"""The kinds of faults, with the letter of the points at which each can happen."""
PERTURBATIONS: Final = {
    "crash": ("crash-after", "crash-before", "absent"),
    "lost-answer": ("lose-answer",),
    "conflict": ("conflict",),
    "lag": ("hold",),
    "miss": ("miss",),
    "past": ("past",),
    "pause": ("pause",),
}
"""The names for `explored(perturb=…)`, with their kinds of faults."""
_POINT: Final = re.compile(r"([WES])([1-9][0-9]{0,6})")
_MAX_PLAN_CHARS: Final = 4_096


class PlanError(ValueError):
    """The text of a plan cannot be read."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at one point of a run.

    Args:
        kind: One of `FAULT_KINDS`.
        at: The point: `W3`, `E5` or `S1`.
        until: The `S` point at which a late watch catches up or an absent operator restarts; if empty, the next time at
            which the cluster is settled. For `past`: the `W` point with the state that the restarted operator receives.
    """

    kind: str
    at: str
    until: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.at}" + (f"..{self.until}" if self.until else "")

    @classmethod
    def read(cls, text: str) -> Fault:
        """Return the fault of a text such as `hold:E5..S2`. Raises `PlanError`."""
        kind, _, rest = text.strip().partition(":")
        at, _, until = rest.partition("..")
        if (letter := FAULT_KINDS.get(kind)) is None:
            raise PlanError(f"plan: {kind!r} is no fault; the faults are {', '.join(FAULT_KINDS)}")
        found = _POINT.fullmatch(at)
        if found is None or found[1] != letter:
            raise PlanError(f"plan: {text.strip()!r}: {kind} happens at a point such as {letter}3, not at {at!r}")
        if until and (found := _POINT.fullmatch(until)) is None:
            raise PlanError(f"plan: {text.strip()!r}: {until!r} is no point; points are W3, E5 or S1")
        if kind == "past" and not until.startswith("W"):
            raise PlanError(f"plan: {text.strip()!r}: past needs the write whose state is seen: past:W3..W1")
        if until and kind != "past" and not (until.startswith("S") and kind in ("hold", "miss", "absent")):
            raise PlanError(f"plan: {text.strip()!r}: only hold, miss and absent last until a point such as S2")
        return cls(kind, at, until)


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of one run; a plan without faults is the reference run."""

    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.faults)) or "none"

    @classmethod
    def read(cls, text: str) -> Plan:
        """Return the plan of a text. Raises `PlanError`."""
        if len(text) > _MAX_PLAN_CHARS:
            raise PlanError(f"plan: {len(text)} characters; at most {_MAX_PLAN_CHARS} are allowed")
        if text.strip() in ("", "none"):
            return cls()
        return cls(tuple(Fault.read(one) for one in text.split("+")))

    def without(self, index: int) -> Plan:
        """Return the plan without one of its faults."""
        return Plan(self.faults[:index] + self.faults[index + 1 :])


def read_plans(lines: Iterable[str]) -> list[Plan]:
    """Return the plans of a file, one per line; `#` starts a comment. Raises `PlanError` with the line number."""
    found: list[Plan] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            try:
                found.append(Plan.read(text))
            except PlanError as problem:
                raise PlanError(f"line {number}: {problem}") from None
    return found
