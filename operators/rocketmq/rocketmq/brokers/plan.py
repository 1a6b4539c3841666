"""The stage Sync as a pure function: the next steps for the groups of a Broker, and the reasons of waiting steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from rocketmq.api.v1.broker_types import Broker, DrainStatus, GroupStatus, members_per_group
from rocketmq.brokers.elections import MIN_IN_SYNC
from rocketmq.brokers.names import Member, members_of
from rocketmq.brokers.observation import GroupState, MemberState, Observation, drained_work
from rocketmq.brokers.settings import Endpoints, is_applied, live, settings_of

__all__ = ["ApplyMember", "Configure", "CopyTo", "HandOver", "Plan", "RemoveGroup", "RemoveMember", "Step", "plan"]

DRAIN_QUIET_SECONDS = 40
"""Time without a new message before a drained group is removed.

Producers read routes every 30 seconds and send to the group until then, because a broker does not refuse messages.
"""


@dataclass(frozen=True)
class ApplyMember:
    """Create the StatefulSet of a member, or update it, which restarts the member."""

    member: Member
    reason: str


@dataclass(frozen=True)
class RemoveMember:
    """Delete the StatefulSet of a member that the spec no longer has."""

    member: Member


@dataclass(frozen=True)
class HandOver:
    """Make another member the master before the master restarts."""

    master: Member
    to: Member


@dataclass(frozen=True)
class Configure:
    """Change settings of a running broker."""

    member: Member
    settings: Mapping[str, str]


@dataclass(frozen=True)
class CopyTo:
    """Copy topics and subscription groups from a master to the master of a new group."""

    source: Member
    target: Member
    group: int


@dataclass(frozen=True)
class RemoveGroup:
    """Delete the children of a drained group."""

    group: int


Step = ApplyMember | RemoveMember | HandOver | Configure | CopyTo | RemoveGroup


@dataclass(frozen=True)
class Plan:
    """The next steps, the groups that are new or being removed, and the reason of a waiting step."""

    steps: tuple[Step, ...] = ()
    joined: frozenset[int] = frozenset()
    drains: Mapping[int, DrainStatus] = field(default_factory=dict[int, DrainStatus])
    waiting: str = ""
    """The condition that a rolling restart or a change of size waits for."""


def plan(broker: Broker, seen: Observation, endpoints: Endpoints) -> Plan:
    """Return the next steps for a Broker.

    Args:
        broker: the Broker, with the status of the last reconcile.
        seen: the groups of the spec and those that are being removed.
        endpoints: the name servers and controllers of the members.
    """
    known = {each.name: each for each in broker.status.groups}
    joined, copies = _joining(broker, seen, known)
    drains = {
        group.index: _drain(group, known.get(_name(broker, group.index)), seen)
        for group in seen.groups
        if group.index >= broker.spec.size and group.exists
    }
    removals = tuple(
        RemoveGroup(index) for index, drain in drains.items() if _is_drained(seen.group(index), drain, seen)
    )
    steps = (*_missing(broker, seen), *_configuration(broker, seen, endpoints), *copies, *removals)
    if steps:
        return Plan(steps, joined, drains, _drain_text(seen, drains))
    rolled, waiting = _roll(broker, seen)
    return Plan(rolled, joined, drains, waiting or _drain_text(seen, drains))


def _name(broker: Broker, index: int) -> str:
    return f"{broker.metadata.name}-{index}"


def _missing(broker: Broker, seen: Observation) -> Iterator[Step]:
    for index in range(broker.spec.size):
        states = {each.member: each for each in seen.group(index).members}
        for member in members_of(broker, index):
            state = states.get(member)
            if state is None or not state.exists:
                yield ApplyMember(member, "missing")


def _configuration(broker: Broker, seen: Observation, endpoints: Endpoints) -> Iterator[Step]:
    """Yield the settings that running brokers lack; this also makes a group that is removed read-only."""
    for group in seen.groups:
        writable = group.index < broker.spec.size
        for each in group.members:
            if not each.answers:
                continue
            wanted = live(settings_of(broker, each.member, endpoints, writable=writable))
            if broker.spec.cluster_mode == "CONTROLLER" and each.is_master and group.elected != each.member:
                # A former master that has not learned of the election must refuse messages.
                del wanted[MIN_IN_SYNC]
            changed = {name: value for name, value in wanted.items() if not is_applied(value, each.settings.get(name))}
            if changed:
                yield Configure(each.member, changed)


def _joining(
    broker: Broker, seen: Observation, known: Mapping[str, GroupStatus]
) -> tuple[frozenset[int], tuple[Step, ...]]:
    """Return the groups that have the topics of the others, and the steps for the missing copies."""
    wanted = range(broker.spec.size)
    before = {index for index in wanted if (found := known.get(_name(broker, index))) and found.joined}
    source = _source(broker, seen, before)
    fresh = [index for index in wanted if index not in before and seen.group(index).master is not None]
    if source is None:
        # The first group has no group to copy from.
        first = frozenset(fresh[:1]) if not before else frozenset[int]()
        return frozenset(before) | first, ()
    copies = [
        CopyTo(source, target.member, index) for index in fresh if (target := seen.group(index).master) is not None
    ]
    return frozenset(before), tuple(copies)


def _source(broker: Broker, seen: Observation, joined: set[int]) -> Member | None:
    """Return the member to copy from: `scalePodName`, or the master of the first group that has joined."""
    chosen = broker.spec.scale_pod_name
    for group in seen.groups:
        for each in group.members:
            if chosen and each.answers and each.member.pod(broker.metadata.name) == chosen:
                return each.member
    masters = [seen.group(index).master for index in sorted(joined)]
    return next((each.member for each in masters if each is not None), None)


def _drain(group: GroupState, before: GroupStatus | None, seen: Observation) -> DrainStatus:
    """Return the progress of the drain of a group: since when no message has arrived."""
    master = group.master
    offset = master.offset if master is not None else -1
    old = before.drain if before is not None else None
    protected = master is not None and master.settings.get("brokerPermission") == "4"
    if old is None or not protected or old.offset != offset or old.unchanged_since is None:
        return DrainStatus(offset=offset, unchanged_since=seen.now, pending=drained_work(group))
    return DrainStatus(offset=offset, unchanged_since=old.unchanged_since, pending=drained_work(group))


def _is_drained(group: GroupState, drain: DrainStatus, seen: Observation) -> bool:
    master = group.master
    if master is None or drain.unchanged_since is None or master.settings.get("brokerPermission") != "4":
        return False
    quiet = seen.now - drain.unchanged_since >= timedelta(seconds=DRAIN_QUIET_SECONDS)
    return quiet and drain.pending == 0


def _drain_text(seen: Observation, drains: Mapping[int, DrainStatus]) -> str:
    for index, drain in sorted(drains.items()):
        if seen.group(index).master is None:
            return (
                f"group {index} leaves and has no master: start it, or delete its StatefulSets to give up its messages"
            )
        if drain.pending:
            return f"group {index} leaves when consumers have read {drain.pending} messages"
        return f"group {index} leaves when no message has come for {DRAIN_QUIET_SECONDS} seconds"
    return ""


def _roll(broker: Broker, seen: Observation) -> tuple[tuple[Step, ...], str]:
    """Return the next restart or removal of a member, one group at a time."""
    for group in seen.groups:
        if group.index >= broker.spec.size:
            continue
        surplus = [each for each in group.members if each.member.index >= members_per_group(broker.spec)]
        outdated = [each for each in group.members if each.outdated and each not in surplus]
        unusable = [each for each in outdated if not each.usable]
        if not (outdated or surplus):
            if not group.healthy:
                return (), _wait_text(group)
            continue
        if outdated and not broker.spec.allow_restart:
            return (), "allowRestart is false, and the change needs a restart"
        if unusable:
            return (ApplyMember(unusable[0].member, "changed_and_not_ready"),), ""
        if not group.healthy:
            return (), _wait_text(group)
        return _next(broker, group, surplus, outdated), ""
    return (), ""


def _next(
    broker: Broker, group: GroupState, surplus: list[MemberState], outdated: list[MemberState]
) -> tuple[Step, ...]:
    """Return the steps for a healthy group: replicas first, the master last after a leadership transfer."""
    master = group.master
    assert master is not None
    leaving = [each for each in surplus if each is not master]
    if leaving:
        return (RemoveMember(leaving[-1].member),)
    replicas = [each for each in outdated if each is not master]
    if replicas:
        return (ApplyMember(replicas[-1].member, "changed"),)
    successors = [each for each in group.synchronous if each is not master and each not in surplus]
    if broker.spec.cluster_mode != "STATIC" and successors:
        return (HandOver(master.member, successors[0].member),)
    return (ApplyMember(master.member, "changed"),)


def _wait_text(group: GroupState) -> str:
    if group.master is None:
        return f"group {group.index} has no master, or more than one"
    behind = [each.member.index for each in group.members if each not in group.synchronous]
    return f"members {', '.join(map(str, behind))} of group {group.index} are not in sync"
