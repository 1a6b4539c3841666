"""The events that the life cycle of a Pod takes, and the effects that it returns, as values.

`pod_lifecycle.step` applies an `Event` to a `PodState` and returns `Effect`s; a runtime performs these and reports
events. Times are seconds since the epoch, as floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from steersman_cluster.nodes.pod_state import Container, Refusal, Termination
from steersman_cluster.objects import Object

__all__ = [
    "Effect",
    "End",
    "Event",
    "Exited",
    "NotPrepared",
    "NotResized",
    "NotStarted",
    "Prepare",
    "Prepared",
    "ProbeFailed",
    "Readiness",
    "Remove",
    "Report",
    "Resize",
    "Resized",
    "Start",
    "Started",
    "StartedUp",
    "Stop",
    "Sync",
    "Tick",
    "Wake",
]

# Events.


@dataclass(frozen=True, slots=True)
class Sync:
    """A version of the Pod in the API; with `refusal` its new resources are not allocated."""

    pod: Object
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of a requested `Tick`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The node is prepared for the Pod: address, directories, volumes."""

    ip: str


@dataclass(frozen=True, slots=True)
class NotPrepared:
    """The preparation failed; it is retried."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Started:
    """A container runs: `started` without a startup probe, `ready` without any probe."""

    container: str
    attempt: int
    id: str = ""
    started: bool = True
    ready: bool = True


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A container did not start: `ErrImagePull`, `CreateContainerConfigError`, `RunContainerError`."""

    container: str
    attempt: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A container's process ended."""

    container: str
    attempt: int
    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StartedUp:
    """The startup probe succeeded; `ready` without a readiness probe."""

    container: str
    attempt: int
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness probe reached its threshold."""

    container: str
    attempt: int
    ready: bool


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """A liveness or startup probe reached its failure threshold: `why` is `liveness` or `startup`."""

    container: str
    attempt: int
    why: str
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    """The resources of a running container were changed."""

    container: str
    attempt: int
    resources: Object


@dataclass(frozen=True, slots=True)
class NotResized:
    """The resources of a running container could not be changed; it is retried."""

    container: str
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class End:
    """The node ends the Pod (eviction)."""

    termination: Termination


Event: TypeAlias = (
    Sync
    | Tick
    | Prepared
    | NotPrepared
    | Started
    | NotStarted
    | Exited
    | StartedUp
    | Readiness
    | ProbeFailed
    | Resized
    | NotResized
    | End
)


# Effects.


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare the node for the Pod; the runtime reports `Prepared` or `NotPrepared`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container; the runtime reports `Started` or `NotStarted`, and later `Exited`."""

    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a container within `grace` seconds; the runtime reports `Exited`. Repeated if the grace period shrinks."""

    container: str
    attempt: int
    grace: float


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the resources of a running container; the runtime reports `Resized` or `NotResized`."""

    container: str
    attempt: int
    resources: Object


@dataclass(frozen=True, slots=True)
class Report:
    """Record an Event."""

    type: str
    reason: str
    message: str
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a `Tick` at this time."""

    at: float


@dataclass(frozen=True, slots=True)
class Remove:
    """All containers have stopped: clean up and delete the object."""


Effect: TypeAlias = Prepare | Start | Stop | Resize | Report | Wake | Remove
