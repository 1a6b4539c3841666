"""The mutable state of one step of a Pod's life cycle: what changes, and the effects so far."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from steersman_cluster.nodes.pod_events import (
    Effect,
    Report,
    Stop,
    Wake,
)
from steersman_cluster.nodes.pod_state import (
    Container,
    PodState,
    Stage,
)
from steersman_cluster.objects import name_of, namespace_of

__all__ = ["FIRST_BACKOFF", "LONGEST_BACKOFF", "PodTransition"]

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 300.0
"""Seconds; doubled at each restart, and reset after twice the maximum without a failure."""


class PodTransition:
    """The mutable state of one step."""

    def __init__(self, pod_state: PodState, now: float) -> None:
        self.pod_state = pod_state
        self.now = now
        self.containers = list(pod_state.containers)
        self.effects: list[Effect] = []
        self.wakes: list[float] = []

    def result(self) -> tuple[PodState, tuple[Effect, ...]]:
        """Return the new state and the effects."""
        if self.wakes:
            self.effects.append(Wake(min(self.wakes)))
        containers = tuple(self.containers)
        if containers != self.pod_state.containers:
            self.pod_state = replace(self.pod_state, containers=containers)
        return self.pod_state, tuple(self.effects)

    def change(self, index: int, **fields: Any) -> Container:
        """Change fields of a container; return it."""
        changed = self.containers[index] = replace(self.containers[index], **fields)
        return changed

    def set(self, **fields: Any) -> None:
        """Change fields of the state."""
        self.pod_state = replace(self.pod_state, **fields)

    def report(self, type: str, reason: str, message: str, container: Container | None = None) -> None:
        """Record an Event, about one container if it is given."""
        self.effects.append(Report(type, reason, message, container))

    @property
    def pod_text(self) -> str:
        """The Pod as the kubelet's messages name it."""
        pod = self.pod_state.pod
        return f"{name_of(pod)}_{namespace_of(pod)}({self.pod_state.uid})"

    def stop(self, index: int, message: str, grace: float) -> None:
        """Stop a container within `grace` seconds; the message is the reason."""
        container = self.change(index, stage=Stage.STOPPING, kill=message, grace=grace, ready=False)
        self.report("Normal", "Killing", message, container)
        self.effects.append(Stop(container.name, container.attempt, grace))
