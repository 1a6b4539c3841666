"""How a simulated Pod behaves, as its annotations ask.

All names begin with `simulate.steersman.dev/`; a name followed by `.` and a container's name speaks of that container
alone and goes before the general one. Times are seconds (`2`, `0.5`) or durations (`500ms`, `2s`, `1m30s`).

| name | value | what happens |
|---|---|---|
| `start-after` | time | containers start so long after they are asked to |
| `ready-after` | time | a container becomes ready so long after its start (default: the node's) |
| `never-ready` | `true` | it never becomes ready |
| `exit-after` | time | main containers end so long after their start |
| `exit-code` | number | how they end (default 0); without `exit-after` it happens at once |
| `fail` | text | the container ends at once with code 1 and this termination message |
| `crash-loop` | `true` or time | it ends with code 1 so long after each start (default at once), over and over |
| `image-pull-error` | text | its image cannot be pulled, with this message |
| `start-error` | text | it cannot be started, with this message |
| `ignores-sigterm` | `true` | it uses up its whole grace period when it is stopped |
| `stop-after` | time | it takes so long to stop |
| `logs` | text | what `kubectl logs` shows; each line is a line of the log |
| `cpu`, `memory` | quantity | what it is seen to use |

Containers of Pods that do not restart always end by themselves with code 0, so Jobs complete; so do init containers.
Annotations are read anew when they change: take `never-ready` away and the Pod becomes ready.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from steersman_cluster.nodes.pod_state import Container, PodState, Role
from steersman_cluster.objects import annotations_of

__all__ = ["PREFIX", "Behaviour", "Defaults", "behaviour_of", "seconds"]

PREFIX: Final = "simulate.steersman.dev/"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a node does with Pods that do not ask for anything, in seconds."""

    start_after: float = 0.0
    ready_after: float = 0.05
    exit_after: float = 0.05
    """How long containers run that are to complete: those of Jobs, init containers."""
    stop_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one container will do."""

    start_after: float
    ready_after: float | None
    """`None`: never."""
    exit_after: float | None
    """`None`: runs until it is stopped."""
    exit_code: int
    message: str
    stop_after: float | None
    """`None`: not before its grace period is over."""
    image_error: str
    start_error: str
    logs: str


def seconds(text: str) -> float | None:
    """A time as annotations have it; `None` for what is none."""
    try:
        value = float(text)
    except ValueError:
        parts = _DURATION.findall(text)
        if not parts or "".join(a + b for a, b in parts) != text:
            return None
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    return value if 0 <= value < float("inf") else None


def behaviour_of(pod_state: PodState, container: Container, defaults: Defaults) -> Behaviour:
    """What the annotations of its Pod ask of a container; unreadable values count as absent."""
    asked = _Asked(annotations_of(pod_state.pod), container.name)
    ready: float | None = asked.time("ready-after", defaults.ready_after)
    if asked.flag("never-ready"):
        ready = None
    code = asked.number("exit-code")
    message = asked.text("fail")
    ends = container.role is Role.INIT or (container.role is Role.MAIN and pod_state.policy != "Always")
    exit_after: float | None = defaults.exit_after if ends else None
    general = container.role is Role.MAIN or asked.own("exit-after", "exit-code", "fail", "crash-loop")
    if general and message:
        code, exit_after = 1, 0.0
    elif general and asked.flag("crash-loop"):
        code, exit_after = code or 1, seconds(asked.text("crash-loop")) or 0.0
    elif general:
        exit_after = asked.time("exit-after", 0.0 if code is not None and exit_after is None else exit_after)
    else:
        code = None
    return Behaviour(
        start_after=asked.time("start-after", defaults.start_after) or 0.0,
        ready_after=ready,
        exit_after=exit_after,
        exit_code=code or 0,
        message=message,
        stop_after=None if asked.flag("ignores-sigterm") else asked.time("stop-after", defaults.stop_after),
        image_error=asked.text("image-pull-error"),
        start_error=asked.text("start-error"),
        logs=asked.text("logs"),
    )


class _Asked:
    def __init__(self, annotations: Mapping[str, str], container: str) -> None:
        self._annotations = annotations
        self._container = container

    def text(self, name: str) -> str:
        found = self._annotations.get(f"{PREFIX}{name}.{self._container}")
        return found if found is not None else self._annotations.get(PREFIX + name, "")

    def own(self, *names: str) -> bool:
        return any(f"{PREFIX}{name}.{self._container}" in self._annotations for name in names)

    def flag(self, name: str) -> bool:
        return self.text(name).lower() not in ("", "false", "0", "no")

    def number(self, name: str) -> int | None:
        text = self.text(name)
        return int(text) if text.isdecimal() and int(text) < 256 else None

    def time(self, name: str, default: float | None) -> float | None:
        found = seconds(self.text(name)) if self.text(name) else None
        return default if found is None else found
