"""Crashes of the operator before and after each kind of step that it performs."""

from __future__ import annotations

import asyncio
import threading

from rocketmq.brokers import effects
from rocketmq.brokers.plan import Step
from tests.process_cluster import Operated

__all__ = ["CrashPoints"]


class CrashPoints:
    """Blocks a reconcile once before and once after each kind of step, until the operator is killed there."""

    def __init__(self) -> None:
        self.reached: set[tuple[str, str]] = set()
        """The points that were reached: kinds of steps with `before` or `after`."""
        self._held = threading.Event()

    def kill_held(self, operator: Operated) -> None:
        """Kill and restart the operator if its reconcile is blocked."""
        if self._held.is_set():
            self._held.clear()
            operator.kill()
            operator.start()

    async def pass_by(self, step: Step, when: str) -> None:
        """Block at this point if it is reached for the first time."""
        point = (type(step).__name__, when)
        if point not in self.reached:
            self.reached.add(point)
            self._held.set()
            await asyncio.Event().wait()

    def effects(self) -> type[effects.Effects]:
        """Return a class of effects with such a point before and after each step."""
        points = self

        class HeldEffects(effects.Effects):
            async def perform(self, steps: tuple[Step, ...]) -> tuple[str, ...]:
                problems: list[str] = []
                for step in steps:
                    await points.pass_by(step, "before")
                    found = await super().perform((step,))
                    if not found:
                        await points.pass_by(step, "after")
                    problems += found
                return tuple(problems)

        return HeldEffects
