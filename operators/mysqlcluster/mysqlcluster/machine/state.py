"""The values of the state machine: the stored state, the desired state (policy), and decisions."""

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
    """Steps of a transition, in their order. Each is stored before its first action."""

    SUSPECT = "Suspect"
    FREEZE = "Freeze"
    FENCE = "Fence"
    APPLY = "Apply"
    INITIALIZE = "Initialize"
    PROMOTE = "Promote"
    REPOINT = "Repoint"


class Quorum(msgspec.Struct, frozen=True):
    """The members whose acknowledgements count, and the least number of them that each commit has waited for."""

    members: tuple[str, ...] = ()
    acks: int = 0

    def required(self) -> int:
        """Return the number of replicas that a failover has to fence.

        If more than `members - acks - 1` replicas are fenced, each acknowledged transaction is on at least one of them,
        and the remaining replicas are too few to acknowledge a commit.
        """
        return len(self.members) - self.acks


class Transition(msgspec.Struct, frozen=True):
    """A change of the primary that is in progress."""

    kind: Kind
    step: Step
    epoch: int
    source: str = ""
    """The previous primary, which may acknowledge commits until the fence is sufficient; `from` in the API."""
    target: str = ""
    """The chosen primary; `to` in the API."""
    started_at: float = 0.0
    reason: str = ""


class Errant(msgspec.Struct, frozen=True):
    """Transactions of a member that the primary does not have."""

    name: str
    gtid: str
    confirmed: bool = False
    """A second observation has found them again."""


class ClusterState(msgspec.Struct, frozen=True):
    """The stored state of a cluster; decisions depend on no other memory of the operator."""

    primary: str = ""
    epoch: int = 0
    transition: Transition | None = None
    quorum: Quorum = Quorum()
    changing: bool = False
    """The quorum is changing: `quorum` is valid for the previous and the next configuration."""
    baseline: str = ""
    """GTID set of the primary when a changed number of acknowledgements took effect; `-` for an empty set."""
    errant: tuple[Errant, ...] = ()
    last_failover: float = 0.0

    def is_errant(self, name: str) -> bool:
        """Return whether errant transactions of a member are confirmed."""
        return any(each.name == name and each.confirmed for each in self.errant)


class Policy(msgspec.Struct, frozen=True):
    """The part of the desired state that the state machine needs."""

    members: tuple[str, ...]
    """The Pods that the cluster should have, by ordinal."""
    domain: str = ""
    """DNS suffix of the members' host names, with a leading dot, or empty."""
    port: int = 3306
    ack_count: int | None = None
    """Acknowledgements per commit; half of the members if None."""
    max_ack_count: int = 8
    """The most acknowledgements that the server can wait for."""
    failover: bool = True
    detection_seconds: float = 2.0
    min_interval_seconds: float = 60.0
    max_lag_seconds: float = 60.0
    """Most time that the new primary may need to apply its relay log; a longer backlog blocks a failover."""
    degrade_to_async: bool = False
    """Lower the number of acknowledgements while commits wait for lost replicas."""
    catch_up_seconds: float = 10.0
    """Most time that a switchover may refuse writes; then it is cancelled."""
    reclone: bool = False
    """Replace the data of errant members."""
    paused: bool = False
    force: bool = False
    """Continue a failover even if it may lose acknowledged transactions."""
    switch_to: str = ""
    """The target of a requested switchover; `*` lets the operator choose."""
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
        """Return the acknowledgements that the primary waits for: at least those of the stored quorum."""
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
    """A state to store, or actions to perform, or neither; never both."""

    store: ClusterState | None = None
    actions: tuple[Action, ...] = ()
    notices: tuple[Notice, ...] = ()
    blocked: str = ""
    """Why a needed step cannot be performed."""
    after: float = 5.0
    """Most seconds until the next observation."""
    idle: bool = False
    """Whether nothing remains to do until a member or the spec changes."""
