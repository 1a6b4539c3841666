"""Breadth-first search through all states (worlds) that a model can reach."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from .world import Model, ViolationError, World


class Found(NamedTuple):
    """The result of a search."""

    worlds: int
    violation: str = ""
    trace: tuple[str, ...] = ()
    reached: int = 0
    """The number of worlds in which the goal holds."""
    complete: bool = True
    """Whether every world within the limits was visited."""


def search(model: Model, first: World, *, most: int, goal: Callable[[World], bool] = lambda _: False) -> Found:
    """Visit the worlds by distance from the first; stop at the first violation or after `most` worlds."""
    came: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    reached = 0
    while queue:
        world = queue.popleft()
        reached += goal(world)
        steps = model.successors(world)
        while True:
            try:
                text, after = next(steps)
            except StopIteration:
                break
            except ViolationError as problem:
                return Found(len(came), str(problem), _trace(came, world), reached)
            after = after._replace(operators=tuple(sorted(after.operators, key=repr)))
            if after not in came:
                if len(came) >= most:
                    return Found(len(came), reached=reached, complete=False)
                came[after] = (world, text)
                queue.append(after)
    return Found(len(came), reached=reached)


def _trace(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    steps: list[str] = []
    at: World | None = world
    while at is not None and (before := came[at]) is not None:
        at, text = before
        steps.append(text)
    return tuple(reversed(steps))
