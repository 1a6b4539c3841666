"""The life of a Pod on a node, as values: how far each container is, what can happen, what is to be done.

`machine.step` moves a `PodState` by one `Event` and answers with `Effect`s; a runtime performs those and reports back
with events. All times are seconds since the epoch, as floats. Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from steersman_cluster.objects import Object, dig, meta, uid_of

__all__ = [
    "Container",
    "Effect",
    "End",
    "Event",
    "Exit",
    "Exited",
    "NotPrepared",
    "NotResized",
    "NotStarted",
    "PodState",
    "Preparation",
    "Prepare",
    "Prepared",
    "ProbeFailed",
    "Readiness",
    "Refusal",
    "Remove",
    "Report",
    "Resize",
    "Resized",
    "Role",
    "Stage",
    "Start",
    "Started",
    "StartedUp",
    "Stop",
    "Sync",
    "Termination",
    "Tick",
    "Wake",
    "containers_of",
]


class Role(Enum):
    """What a container is for; it decides when it starts and whether it comes back."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Added to a running Pod for debugging; started once, and no part of the Pod's readiness or phase."""


class Stage(Enum):
    """How far a container is."""

    WAITING = "waiting"
    """Not running: never started, or waiting to be started again; `Container.exit` tells which."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    """Ended; stays so unless its policy starts it again."""


class Preparation(Enum):
    """Whether the runtime was told to make what the Pod needs on its node, and has done it."""

    NO = "no"
    YES = "yes"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run of a container ended."""

    code: int
    at: float
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    container_id: str = ""


DEFINITION_CHANGED: Final = "definition changed"
"""A part of `Container.kill` where the image of the container changed."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container's progress."""

    spec: Object
    role: Role
    stage: Stage = Stage.WAITING
    attempt: int = 0
    """How often it was started; events of earlier attempts mean nothing."""
    restarts: int = 0
    reason: str = ""
    """Why it waits."""
    message: str = ""
    id: str = ""
    image: str = ""
    """The image of the present run."""
    started_at: float = 0.0
    started: bool = False
    """Running, and the startup probe has passed."""
    ready: bool = False
    exit: Exit | None = None
    """How the latest run ended; none while it runs."""
    last: Exit | None = None
    """How the run before the present one ended."""
    backoff: float = 0.0
    """Seconds of back-off that the next restart has to wait since the exit; 0 means at once."""
    backoff_at: float = 0.0
    retry_at: float = 0.0
    pull_backoff: float = 0.0
    flip_at: float = 0.0
    """When a failed pull turns into a back-off."""
    actual: Object | None = None
    """The resources in effect; `spec` has those that are allocated. `None` before the first start."""
    resizing: bool = False
    """Whether the runtime was told to change the resources, and has not answered."""
    resize_error: str = ""
    """Why the resources could not be changed."""
    kill: str = ""
    """Why it is stopped, where that is not because the Pod ends."""
    grace: float = 0.0

    @property
    def name(self) -> str:
        """The name of the Pod."""
        return self.spec["name"]

    @property
    def replacing(self) -> bool:
        """Whether it is stopped and started again because its definition changed."""
        return DEFINITION_CHANGED in self.kill

    @property
    def live(self) -> bool:
        """Whether the runtime has, or may have, something running for it."""
        return self.stage in (Stage.STARTING, Stage.RUNNING, Stage.STOPPING)


@dataclass(frozen=True, slots=True)
class Termination:
    """Why a Pod is ended by its node: its phase becomes Failed with this reason and message."""

    reason: str
    message: str
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node does not allocate the resources of a resize: the reason is `Infeasible` or `Deferred`."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodState:
    """A Pod on its node."""

    pod: Object
    containers: tuple[Container, ...]
    begun_at: float
    prepared: Preparation = Preparation.NO
    prepare_retry_at: float = 0.0
    ip: str = ""
    termination: Termination | None = None
    closing: str = ""
    """The phase that the Pod will have once everything has stopped: its main containers have ended for good."""
    finished: str = ""
    """`Succeeded` or `Failed` once nothing will run any more."""
    removed: bool = False
    """Whether `Remove` was said."""
    refusal: Refusal | None = None
    """Why the resources that the Pod asks for are not allocated."""
    resize_generation: int = 0
    """The generation of the Pod whose resources come into effect; 0 where no resize is in progress."""

    @property
    def uid(self) -> str:
        """The UID of the Pod."""
        return uid_of(self.pod)

    @property
    def spec(self) -> Object:
        """The spec of the Pod."""
        return self.pod.get("spec") or {}

    @property
    def deleting(self) -> bool:
        """Whether the Pod has a deletion timestamp."""
        return bool(meta(self.pod).get("deletionTimestamp"))

    @property
    def policy(self) -> str:
        """The restart policy, Always by default."""
        return self.spec.get("restartPolicy") or "Always"

    @property
    def grace(self) -> float:
        """Seconds that containers get to stop."""
        if self.deleting:
            return float(dig(self.pod, "metadata", "deletionGracePeriodSeconds", default=0))
        if self.termination is not None and self.termination.grace is not None:
            return self.termination.grace
        return float(dig(self.pod, "spec", "terminationGracePeriodSeconds", default=30))

    def container(self, name: str) -> Container | None:
        """The container of that name."""
        return next((c for c in self.containers if c.name == name), None)

    @property
    def has_inits(self) -> bool:
        """Whether the Pod has init containers, sidecars among them."""
        return bool(self.spec.get("initContainers"))

    @property
    def initialized(self) -> bool:
        """Whether a main container ever ran: then init containers do not run again."""
        return any(c.role is Role.MAIN and (c.attempt or c.exit) for c in self.containers)


def containers_of(spec: Object) -> tuple[Container, ...]:
    """The containers of a Pod spec that has not run yet, in the order in which they start."""
    inits = (
        Container(c, Role.SIDECAR if c.get("restartPolicy") == "Always" else Role.INIT)
        for c in spec.get("initContainers") or ()
    )
    mains = (Container(c, Role.MAIN) for c in spec.get("containers") or ())
    return (*inits, *mains, *(Container(c, Role.EPHEMERAL) for c in spec.get("ephemeralContainers") or ()))


# Events: what happened.


@dataclass(frozen=True, slots=True)
class Sync:
    """The API server has this version of the Pod; with `refusal` its new resources are not allocated."""

    pod: Object
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the Pod needs on its node is there: address, directories, volumes."""

    ip: str


@dataclass(frozen=True, slots=True)
class NotPrepared:
    """What the Pod needs could not be made; it is tried again."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Started:
    """A container runs: `started` where there is no startup probe to wait for, `ready` where there is none at all."""

    container: str
    attempt: int
    id: str = ""
    started: bool = True
    ready: bool = True


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A container could not be started: `ErrImagePull`, `CreateContainerConfigError`, `RunContainerError`."""

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
    """The startup probe has passed; `ready` where there is no readiness probe."""

    container: str
    attempt: int
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness probe has made up its mind."""

    container: str
    attempt: int
    ready: bool


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """A liveness or startup probe has failed for good: `why` is `liveness` or `startup`."""

    container: str
    attempt: int
    why: str
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    """The resources of a running container are in effect."""

    container: str
    attempt: int
    resources: Object


@dataclass(frozen=True, slots=True)
class NotResized:
    """The resources of a running container could not be changed; it is tried again."""

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


# Effects: what is to be done.


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make what the Pod needs on its node; answered by `Prepared` or `NotPrepared`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container; answered by `Started` or `NotStarted`, and some day by `Exited`."""

    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a container within `grace` seconds; answered by `Exited`. Said again when the grace becomes shorter."""

    container: str
    attempt: int
    grace: float


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the resources of a running container; answered by `Resized` or `NotResized`."""

    container: str
    attempt: int
    resources: Object


@dataclass(frozen=True, slots=True)
class Report:
    """Record an Event for people."""

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
    """Everything has stopped: clean up and delete the object."""


Effect: TypeAlias = Prepare | Start | Stop | Resize | Report | Wake | Remove
