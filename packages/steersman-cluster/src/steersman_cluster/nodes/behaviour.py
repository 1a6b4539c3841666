"""The behaviour of simulated Pods, from their annotations.

All names start with `simulate.steersman.dev/`. A name with the suffix `.CONTAINER` applies to that container and has
priority over the name without it. Times are seconds (`2`, `0.5`) or durations (`500ms`, `2s`, `1m30s`).

| name | value | effect |
|---|---|---|
| `start-after` | time | delay of the start of containers |
| `ready-after` | time | delay from the start of a container until it is ready (default: that of the node) |
| `never-ready` | `true` | the container never becomes ready |
| `exit-after` | time | delay from the start of main containers until they exit |
| `exit-code` | number | their exit code (default 0); without `exit-after` they exit immediately |
| `fail` | text | the container exits immediately with code 1 and this termination message |
| `crash-loop` | `true` or time | it exits with code 1 after this delay, after each start (default: immediately) |
| `image-pull-error` | text | its image cannot be pulled, with this message |
| `start-error` | text | it cannot be started, with this message |
| `ignores-sigterm` | `true` | it stops only at the end of its grace period |
| `stop-after` | time | the time that it needs to stop |
| `logs` | text | the content of the log |
| `cpu`, `memory` | quantity | its resource usage |

Init containers, and containers of Pods without `restartPolicy: Always`, exit with code 0, so that Jobs complete.
Changed annotations are applied to running Pods: without `never-ready` the Pod becomes ready.
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
    """The behaviour of Pods without annotations, in seconds."""

    start_after: float = 0.0
    ready_after: float = 0.05
    exit_after: float = 0.05
    """The run time of containers that complete: those of Jobs, and init containers."""
    stop_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of one container."""

    start_after: float
    ready_after: float | None
    """Seconds until the container is ready; `None` for never."""
    exit_after: float | None
    """Seconds until the container exits; `None` if it runs until it is stopped."""
    exit_code: int
    message: str
    stop_after: float | None
    """Seconds that the stop takes; `None` for the whole grace period."""
    image_error: str
    start_error: str
    logs: str


def seconds(text: str) -> float | None:
    """Return the seconds of an annotation's time; `None` for invalid text."""
    try:
        value = float(text)
    except ValueError:
        parts = _DURATION.findall(text)
        if not parts or "".join(a + b for a, b in parts) != text:
            return None
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    return value if 0 <= value < float("inf") else None


def behaviour_of(pod_state: PodState, container: Container, defaults: Defaults) -> Behaviour:
    """Return the behaviour of a container from the annotations of its Pod; invalid values are ignored."""
    asked = _Annotations(annotations_of(pod_state.pod), container.name)
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


class _Annotations:
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
