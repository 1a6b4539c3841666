"""Breadth-first search through all states that a model can reach."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from .states import Model, ModelState, ViolationError


class Found(NamedTuple):
    """The result of a search."""

    states: int
    violation: str = ""
    trace: tuple[str, ...] = ()
    reached: int = 0
    """The number of states in which the goal holds."""
    complete: bool = True
    """Whether every state within the limits was visited."""


def search(
    model: Model, first: ModelState, *, most: int, goal: Callable[[ModelState], bool] = lambda _: False
) -> Found:
    """Visit the states by distance from the first; stop at the first violation or after `most` states."""
    came: dict[ModelState, tuple[ModelState, str] | None] = {first: None}
    queue = deque([first])
    reached = 0
    while queue:
        current = queue.popleft()
        reached += goal(current)
        steps = model.successors(current)
        while True:
            try:
                text, after = next(steps)
            except StopIteration:
                break
            except ViolationError as problem:
                return Found(len(came), str(problem), _trace(came, current), reached)
            after = after._replace(operators=tuple(sorted(after.operators, key=repr)))
            if after not in came:
                if len(came) >= most:
                    return Found(len(came), reached=reached, complete=False)
                came[after] = (current, text)
                queue.append(after)
    return Found(len(came), reached=reached)


def _trace(came: dict[ModelState, tuple[ModelState, str] | None], current: ModelState) -> tuple[str, ...]:
    steps: list[str] = []
    at: ModelState | None = current
    while at is not None and (before := came[at]) is not None:
        at, text = before
        steps.append(text)
    return tuple(reversed(steps))
