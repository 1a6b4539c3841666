"""The values of the state machine: what is stored, what is wanted, and what is to be done."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mysqlcluster.actions import Action

__all__ = [
    "ClusterState",
    "Decision",
    "Errant",
    "Kind",
    "Notice",
    "Policy",
    "Quorum",
    "Step",
    "Transition",
]


class Kind(StrEnum):
    """Why the primary changes."""

    BOOTSTRAP = "Bootstrap"
    """A new cluster without data gets its first primary."""
    RECOVERY = "Recovery"
    """Members have data, but no primary is stored: all of them are compared."""
    FAILOVER = "Failover"
    SWITCHOVER = "Switchover"


class Step(StrEnum):
    """Steps of a transition, in their order. Each is stored before anything of it is done."""

    SUSPECT = "Suspect"
    FREEZE = "Freeze"
    FENCE = "Fence"
    APPLY = "Apply"
    INITIALIZE = "Initialize"
    PROMOTE = "Promote"
    REPOINT = "Repoint"


class Quorum(msgspec.Struct, frozen=True):
    """The members whose acknowledgements count, and how many of them a commit has waited for at least."""

    members: tuple[str, ...] = ()
    acks: int = 0

    def required(self) -> int:
        """Return the number of replicas that a failover has to fence.

        With more of them than `members - acks - 1`, each acknowledged transaction is on at least one, and the replicas
        that are left are too few to acknowledge anything.
        """
        return len(self.members) - self.acks


class Transition(msgspec.Struct, frozen=True):
    """A change of the primary that is under way."""

    kind: Kind
    step: Step
    epoch: int
    source: str = ""
    """The primary before, which may still acknowledge until the fence stands; `from` in the API."""
    target: str = ""
    """The chosen primary; `to` in the API."""
    started_at: float = 0.0
    reason: str = ""


class Errant(msgspec.Struct, frozen=True):
    """Transactions of a member that the primary does not have."""

    name: str
    gtid: str
    confirmed: bool = False
    """A second reading has found them, too."""


class ClusterState(msgspec.Struct, frozen=True):
    """What the operator has stored about a cluster; the decisions depend on nothing else that it remembers."""

    primary: str = ""
    epoch: int = 0
    transition: Transition | None = None
    quorum: Quorum = Quorum()
    changing: bool = False
    """The quorum changes: `quorum` holds for the configuration before and after."""
    baseline: str = ""
    """What the primary had executed when a changed number of acknowledgements was first in effect; `-` for nothing."""
    errant: tuple[Errant, ...] = ()
    last_failover: float = 0.0

    def is_errant(self, name: str) -> bool:
        """Return whether errant transactions of a member are confirmed."""
        return any(each.name == name and each.confirmed for each in self.errant)


class Policy(msgspec.Struct, frozen=True):
    """What the user wants, as far as the state machine is concerned."""

    members: tuple[str, ...]
    """The Pods that the cluster should have, by ordinal."""
    domain: str = ""
    """DNS suffix of the members' host names, with a leading dot, or empty."""
    port: int = 3306
    ack_count: int | None = None
    """Half of the members if None."""
    max_ack_count: int = 8
    """What the server can wait for."""
    failover: bool = True
    detection_seconds: float = 2.0
    min_interval_seconds: float = 60.0
    max_lag_seconds: float = 60.0
    """Most time that a failover may let the new primary need for what it has received; a longer backlog blocks it."""
    degrade_to_async: bool = False
    """Lower the number of acknowledgements while commits wait for replicas that are gone."""
    catch_up_seconds: float = 10.0
    """How long a switchover may refuse writes before it is given up."""
    reclone: bool = False
    """Replace the data of errant members."""
    paused: bool = False
    force: bool = False
    """Go on with a failover that may lose acknowledged transactions."""
    switch_to: str = ""
    """The member that a switchover is requested to; `*` lets the operator choose."""
    switch_reason: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    """Server variables, sorted by name."""
    settings_revision: str = ""
    """The revision of `settings`."""
    backup: str = ""
    """Backup that a new cluster starts from."""
    until_time: str = ""
    until_gtid: str = ""

    def acks(self, size: int) -> int:
        """Return the acknowledgements of a quorum with `size` members."""
        wanted = size // 2 if self.ack_count is None else self.ack_count
        return max(0, min(wanted, size - 1, self.max_ack_count))

    def acks_of(self, quorum: Quorum) -> int:
        """Return the acknowledgements that the primary waits for: never fewer than what the stored quorum promises."""
        return max(quorum.acks, self.acks(len(quorum.members)))

    def host(self, member: str) -> str:
        """Return the DNS name of a member."""
        return f"{member}{self.domain}"


class Notice(msgspec.Struct, frozen=True):
    """An Event to record."""

    reason: str
    message: str
    warning: bool = False


class Decision(msgspec.Struct, frozen=True):
    """Either a state to store, and nothing else until it is, or actions, or neither."""

    store: ClusterState | None = None
    actions: tuple[Action, ...] = ()
    notices: tuple[Notice, ...] = ()
    blocked: str = ""
    """Why nothing can be done although something should be."""
    after: float = 5.0
    """Seconds until the next observation at the latest."""
