"""Checkpoints: the complete states at the ends of the steps, by which a run that equals the reference is recognised.

A run that has the state of the reference at the same step, with all faults behind it, continues as the reference does.
It need not run to the end of the scenario.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from steersman.testing.explore.memory import handlers, memory_digest, scenario_frames
from steersman.testing.explore.state import NormalState, normal_state
from steersman.testing.simulation import SimulatedOperator
from steersman_cluster.storage import Storage

__all__ = ["Checkpoint", "ConvergedError", "checkpoint"]


class ConvergedError(Exception):
    """The run has the state of the reference; the rest of the scenario is omitted."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The complete state at the end of a step.

    Args:
        objects: A digest of the objects, without what differs between equivalent runs.
        processes: The processes of the operator: whether each leads, and the keys that it will reconcile later.
        memory: A digest of the variables of the operator and the scenario; `None` if they cannot be read.
    """

    objects: str
    processes: tuple[tuple[bool, tuple[str, ...]], ...]
    memory: str | None

    def equals(self, other: Checkpoint) -> bool:
        """Return whether two runs are in the same state."""
        return self.memory is not None and self == other


def checkpoint(
    storage: Storage, since: int, running: Iterable[SimulatedOperator], others: Iterable[object]
) -> Checkpoint:
    """Return the state at the end of a step; called in the task of the scenario.

    Args:
        storage: The storage of the API server.
        since: A revision; objects that did not change after it are omitted.
        running: The processes of the operator.
        others: Other values that belong to the state.
    """
    operators = tuple(running)
    functions = [tuple(handlers(one.operator)) for one in operators]
    packages = {_package(str(getattr(function, "__module__", ""))) for found in functions for function in found}
    return Checkpoint(
        _digest(normal_state(storage, since, complete=True)),
        tuple(sorted((one.leading, one.scheduled) for one in operators)),
        memory_digest((functions, tuple(scenario_frames()), tuple(others)), packages),
    )


def _package(module: str) -> str:
    """Return the package of an operator, whose objects belong to the state."""
    return "steersman_cluster.controllers" if module.startswith("steersman_cluster.") else module.partition(".")[0]


def _digest(state: NormalState) -> str:
    made = hashlib.blake2b(digest_size=16)
    for key, texts in state.items():
        for text in (key, *texts):
            made.update(text.encode())
            made.update(b"\0")
    return made.hexdigest()
