"""The state of a Pod on a node as a value: its containers, their ends, and why the Pod ends.

Times are seconds since the epoch, as floats. Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from steersman_cluster.objects import Object, dig, meta, uid_of

__all__ = [
    "DEFINITION_CHANGED",
    "Container",
    "Exit",
    "PodState",
    "Preparation",
    "Refusal",
    "Role",
    "Stage",
    "Termination",
    "containers_of",
]


class Role(Enum):
    """The role of a container, which decides when it starts and restarts."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Added to a running Pod for debugging; started once, without effect on the Pod's readiness or phase."""


class Stage(Enum):
    """The stage of a container's life: waiting, starting, running, stopping or ended."""

    WAITING = "waiting"
    """Not running: never started, or waiting for its restart; see `Container.exit`."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    """Ended, unless its policy restarts it."""


class Preparation(Enum):
    """Whether the node is prepared for the Pod (address, directories, volumes), and whether it was requested."""

    NO = "no"
    YES = "yes"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a run of a container."""

    code: int
    at: float
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    container_id: str = ""


DEFINITION_CHANGED: Final = "definition changed"
"""A part of `Container.kill` after a change of the image."""


@dataclass(frozen=True, slots=True)
class Container:
    """The state of one container."""

    spec: Object
    role: Role
    stage: Stage = Stage.WAITING
    attempt: int = 0
    """The number of starts; events of earlier attempts are ignored."""
    restarts: int = 0
    reason: str = ""
    """The reason for waiting."""
    message: str = ""
    id: str = ""
    image: str = ""
    """The image of the current run."""
    started_at: float = 0.0
    started: bool = False
    """Running, and the startup probe has succeeded."""
    ready: bool = False
    exit: Exit | None = None
    """The end of the last run; none while it runs."""
    last: Exit | None = None
    """The end of the run before the current one."""
    backoff: float = 0.0
    """Seconds of backoff before the next restart, from the exit; 0 means none."""
    backoff_at: float = 0.0
    retry_at: float = 0.0
    pull_backoff: float = 0.0
    flip_at: float = 0.0
    """The time when a failed pull becomes a backoff."""
    actual: Object | None = None
    """The effective resources; `spec` has the allocated ones. `None` before the first start."""
    resizing: bool = False
    """Whether a resize of the runtime is in progress."""
    resize_error: str = ""
    """The reason why the resources could not be changed."""
    kill: str = ""
    """The reason of the stop, if the Pod does not end."""
    grace: float = 0.0

    @property
    def name(self) -> str:
        """The name of the Pod."""
        return self.spec["name"]

    @property
    def replacing(self) -> bool:
        """Whether it restarts because its definition changed."""
        return DEFINITION_CHANGED in self.kill

    @property
    def live(self) -> bool:
        """Whether the runtime has, or may have, a process for it."""
        return self.stage in (Stage.STARTING, Stage.RUNNING, Stage.STOPPING)


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of a Pod by its node: the phase becomes Failed with this reason and message."""

    reason: str
    message: str
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a resize by a node: the reason is `Infeasible` or `Deferred`."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a Pod on its node."""

    pod: Object
    containers: tuple[Container, ...]
    begun_at: float
    prepared: Preparation = Preparation.NO
    prepare_retry_at: float = 0.0
    ip: str = ""
    termination: Termination | None = None
    closing: str = ""
    """The phase of the Pod after the stop of all containers: its main containers will not restart."""
    finished: str = ""
    """`Succeeded` or `Failed` after the last container."""
    removed: bool = False
    """Whether the effect `Remove` was returned."""
    refusal: Refusal | None = None
    """The reason why the requested resources of the Pod are not allocated."""
    resize_generation: int = 0
    """The generation of the Pod whose resources are being applied; 0 without a resize."""

    @property
    def uid(self) -> str:
        """`metadata.uid` of the Pod."""
        return uid_of(self.pod)

    @property
    def spec(self) -> Object:
        """The spec in the last version of the Pod's object."""
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
        """Return the container of that name, or `None`."""
        return next((c for c in self.containers if c.name == name), None)

    @property
    def has_inits(self) -> bool:
        """Whether the Pod has init containers, including sidecars."""
        return bool(self.spec.get("initContainers"))

    @property
    def initialized(self) -> bool:
        """Whether a main container has run: then init containers do not run again."""
        return any(c.role is Role.MAIN and (c.attempt or c.exit) for c in self.containers)


def containers_of(spec: Object) -> tuple[Container, ...]:
    """Return the containers of a new Pod in the order of their start."""
    inits = (
        Container(c, Role.SIDECAR if c.get("restartPolicy") == "Always" else Role.INIT)
        for c in spec.get("initContainers") or ()
    )
    mains = (Container(c, Role.MAIN) for c in spec.get("containers") or ())
    return (*inits, *mains, *(Container(c, Role.EPHEMERAL) for c in spec.get("ephemeralContainers") or ()))
