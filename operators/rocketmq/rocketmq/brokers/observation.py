"""The observed state of the members of a Broker, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rocketmq.brokers.names import Member

__all__ = ["GroupState", "MemberState", "Observation", "drained_work"]


@dataclass(frozen=True)
class MemberState:
    """One member: its Pod, and the report of its broker."""

    member: Member
    exists: bool = False
    """Whether it has a StatefulSet."""
    outdated: bool = False
    """Whether its StatefulSet differs from the spec, so that it must restart."""
    ready: bool = False
    """Whether its Pod has the newest template and is ready."""
    answers: bool = False
    """Whether its broker answers."""
    is_master: bool = False
    offset: int = -1
    """The end offset of its commit log."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""
    address: str = ""
    """The address that it registers with name servers and controllers."""
    put_tps: float = 0.0
    disk_percent: float = 0.0
    delayed: int = 0
    """Scheduled (delayed) messages that the broker has not delivered yet."""

    @property
    def usable(self) -> bool:
        """Whether its Pod is ready and its broker answers."""
        return self.ready and self.answers


@dataclass(frozen=True)
class GroupState:
    """The members of one group.

    The offset of the master is read before those of the other members, so a member whose offset is not smaller has all
    messages that the master had acknowledged at that time.
    """

    index: int
    members: tuple[MemberState, ...]
    in_sync: frozenset[Member] | None = None
    """The in-sync members that the controllers report; `None` if the offsets determine them."""
    elected: Member | None = None
    """The master that the controllers report; `None` if they report none, or in another mode."""
    lag: int | None = None
    """Messages that consumers have not read; known only for groups that are drained."""

    @property
    def master(self) -> MemberState | None:
        """The member that accepts messages; `None` if no member, or more than one, reports to be the master."""
        found = [each for each in self.members if each.answers and each.is_master]
        return found[0] if len(found) == 1 else None

    @property
    def synchronous(self) -> tuple[MemberState, ...]:
        """The members with all acknowledged messages, including the master."""
        master = self.master
        if master is None:
            return ()
        return tuple(each for each in self.members if each.usable and self._holds_all(each, master))

    def _holds_all(self, each: MemberState, master: MemberState) -> bool:
        listed = self.in_sync is None or each.member in self.in_sync
        return each.member == master.member or (listed and each.offset >= master.offset)

    @property
    def healthy(self) -> bool:
        """Whether every member is usable and in sync."""
        return bool(self.members) and len(self.synchronous) == len(self.members)

    @property
    def exists(self) -> bool:
        """Whether a member has a StatefulSet."""
        return any(each.exists for each in self.members)


@dataclass(frozen=True)
class Observation:
    """All groups of a Broker, in order, at one time."""

    groups: tuple[GroupState, ...]
    now: datetime
    name_servers: tuple[str, ...] = ()
    """The name servers that answer."""

    def group(self, index: int) -> GroupState:
        """Return a group; an empty group if it was not observed."""
        found = [each for each in self.groups if each.index == index]
        return found[0] if found else GroupState(index, ())


def drained_work(group: GroupState) -> int | None:
    """Return the number of messages that prevent the removal of a group; `None` if it is unknown."""
    master = group.master
    return None if master is None or group.lag is None else group.lag + master.delayed
