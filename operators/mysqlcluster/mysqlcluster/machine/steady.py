"""A cluster with a primary: observation, rejoin and clone of members, and changes of the quorum."""

from __future__ import annotations

from msgspec.structs import replace

from mysqlcluster.actions import (
    Action,
    Clone,
    ConfirmComplete,
    Demote,
    Drain,
    Fence,
    Promote,
    SetAckCount,
    SetSource,
    StopReplication,
)
from mysqlcluster.gtid import GtidSet
from mysqlcluster.machine import settings, switchover
from mysqlcluster.machine.failover import POLL_SECONDS, is_lost
from mysqlcluster.machine.state import (
    ClusterState,
    Decision,
    Errant,
    Kind,
    Notice,
    Policy,
    Quorum,
    Step,
    Transition,
)
from mysqlcluster.observation import STALLED_SECONDS, MemberState, Observation, Role

__all__ = ["repoint", "watch"]

IDLE_SECONDS = 2.0
"""Time between observations of a cluster without actions."""
MAX_MISSING_TRANSACTIONS = 10_000
"""A replica that lacks at most so many transactions is asked whether it is complete.

The primary is observed after the replicas, so that under constant writes each replica lacks the latest transactions in
every observation. The agent refuses as long as transactions of the observation are missing.
"""
DIVERGENCE_ERRORS = frozenset({"1007", "1008", "1032", "1050", "1051", "1062", "1146", "1236", "1396"})
"""Error numbers for rows, tables, databases or accounts that exist or are missing on the replica alone, and for binary
logs that the source no longer has."""


def repoint(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Make members replicate from the new primary until enough of them can acknowledge commits."""
    primary = seen.get(state.primary)
    followers = [member for member in seen.select(state.quorum.members) if member.follows(state.primary, state.epoch)]
    if is_lost(primary) or len(followers) >= state.quorum.acks:
        last = seen.time if transition.kind is Kind.FAILOVER else state.last_failover
        return Decision(store=replace(state, transition=None, last_failover=last), after=POLL_SECONDS)
    urgent = _promote_again(policy, state, primary) or _judge(state, primary, seen)
    return replace(urgent or _rejoin(policy, state, primary, seen), after=POLL_SECONDS, idle=False)


def watch(policy: Policy, state: ClusterState, seen: Observation) -> Decision:
    """Return the next decision of a cluster that has a primary and no transition."""
    primary = seen.get(state.primary)
    if is_lost(primary):
        suspected = Transition(Kind.FAILOVER, Step.SUSPECT, state.epoch, source=state.primary, started_at=seen.time)
        notice = Notice("PrimaryLost", f"{state.primary} does not answer", warning=True)
        return Decision(store=replace(state, transition=suspected), notices=(notice,), after=POLL_SECONDS)
    if (again := _promote_again(policy, state, primary)) is not None:
        return again
    if (release := _release_commits(state, primary, seen)) is not None:
        return release
    if policy.switch_to or state.primary not in policy.members:
        target = switchover.target_of(policy, state, seen)
        if isinstance(target, MemberState):
            return switchover.request(state, target.name, policy.switch_reason or "requested", seen)
    return (
        _judge(state, primary, seen)
        or _change_quorum(policy, state, primary, seen)
        or settings.adjust(policy, state, primary, seen)
        or _rejoin(policy, state, primary, seen)
    )


def _promote_again(policy: Policy, state: ClusterState, primary: MemberState) -> Decision | None:
    """Return the decision that promotes a restarted primary again, in the epoch of its first promotion."""
    if primary.role is Role.PRIMARY and not primary.read_only:
        return None
    if primary.epoch != state.epoch:
        return Decision(actions=(Fence(member=primary.name, epoch=state.epoch),), after=POLL_SECONDS)
    action = Promote(member=primary.name, epoch=state.epoch, ack_count=policy.acks_of(state.quorum))
    return Decision(actions=(action,), after=POLL_SECONDS)


def _release_commits(state: ClusterState, primary: MemberState, seen: Observation) -> Decision | None:
    """Return the decision that restarts a primary if the acknowledgements of its commits were lost.

    A replica of MariaDB that connects again does not receive the transactions that it has, and does not acknowledge
    them again. The commits, and all later ones, would wait for ever. The agent kills the server for the demotion; then
    the primary is promoted again.
    """
    if primary.commit_seconds < STALLED_SECONDS:
        return None
    replicas = _acknowledging(state.quorum, state, primary, seen)
    holders = [each for each in replicas if each.received.contains(primary.logged)]
    if len(holders) < max(1, state.quorum.acks):
        return None
    action = Demote(member=primary.name, epoch=state.epoch, drain_seconds=0.0)
    return Decision(actions=(action,), after=POLL_SECONDS)


def _judge(state: ClusterState, primary: MemberState, seen: Observation) -> Decision | None:
    """Return a decision that stores the members with errant transactions."""
    known = {each.name: each for each in state.errant}
    judged: list[Errant] = []
    notices: list[Notice] = []
    for member in seen.members:
        before = known.get(member.name)
        if member.name == primary.name:
            continue
        if not member.usable or member.follows(primary.name, state.epoch):
            judged += [before] if before and not member.follows(primary.name, state.epoch) else []
            continue
        extra = member.received.subtract(primary.logged)
        if not extra:
            continue
        confirmed = before is not None and (before.confirmed or before.gtid == str(extra))
        judged.append(Errant(member.name, str(extra), confirmed))
        if confirmed and before is not None and not before.confirmed:
            text = f"{member.name} has transactions that {primary.name} does not have: {extra}"
            notices.append(Notice("ErrantTransactions", text, warning=True))
    if tuple(judged) == state.errant:
        return None
    return Decision(store=replace(state, errant=tuple(judged)), notices=tuple(notices), after=POLL_SECONDS)


def _rejoin(policy: Policy, state: ClusterState, primary: MemberState, seen: Observation) -> Decision:
    actions: list[Action] = []
    copying = any(member.clone.running for member in seen.members)
    for name in dict.fromkeys((*policy.members, *state.quorum.members)):
        action = _next_action(policy, state, primary, seen.get(name)) if name != primary.name else None
        if isinstance(action, Clone) and action.keep_copy:
            if copying:
                continue  # only one member at a time replaces its data
            copying = True
        if action is not None:
            actions.append(action)
    if actions:
        return Decision(actions=tuple(actions), after=POLL_SECONDS)
    return Decision(after=IDLE_SECONDS, idle=True)


def _next_action(policy: Policy, state: ClusterState, primary: MemberState, member: MemberState) -> Action | None:
    """Return the next action that lets a member replicate from the primary."""
    if not member.reachable or member.clone.running:
        return None
    if member.role is Role.PRIMARY:
        return Demote(member=member.name, epoch=state.epoch)
    if member.name not in policy.members:
        return _leave(state, member)
    if not member.initialized:
        return _clone(state, primary, member, keep_copy=False)
    if not member.server_up:
        return None
    if any(each.name == member.name for each in state.errant):
        wanted = policy.reclone and state.is_errant(member.name)
        return _clone(state, primary, member, keep_copy=True) if wanted else None
    if _has_diverged(member):
        return _clone(state, primary, member, keep_copy=True)
    if not primary.logged.contains(member.received) and not member.follows(primary.name, state.epoch):
        return None  # a second observation must confirm the errant transactions first
    acknowledge = member.name in state.quorum.members
    settled = member.follows(primary.name, state.epoch) and not member.draining
    if not settled or member.semi_sync_replica != acknowledge:
        return SetSource(
            member=member.name,
            epoch=state.epoch,
            source=primary.name,
            host=policy.host(primary.name),
            port=policy.port,
            acknowledge=acknowledge,
        )
    if not member.complete and primary.executed.subtract(member.received).count <= MAX_MISSING_TRANSACTIONS:
        return ConfirmComplete(member=member.name, epoch=state.epoch, received=str(primary.executed))
    return None


def _has_diverged(member: MemberState) -> bool:
    """Return whether replication has stopped with an error that only a new copy of the data can resolve."""
    return any(
        error.partition(":")[0] in DIVERGENCE_ERRORS
        for error, running in ((member.sql_error, member.sql_running), (member.io_error, member.io_running))
        if not running
    )


def _leave(state: ClusterState, member: MemberState) -> Action | None:
    """Return the next action of a removal: first the member drains its clients."""
    if not member.io_running:
        return None
    if member.server_up and not member.draining:
        return Drain(member=member.name, epoch=state.epoch)
    if member.server_up and not member.drained:
        return None
    return StopReplication(member=member.name, epoch=state.epoch)


def _clone(state: ClusterState, primary: MemberState, member: MemberState, *, keep_copy: bool) -> Clone:
    required = str(primary.executed)
    return Clone(member=member.name, epoch=state.epoch, source=primary.name, required=required, keep_copy=keep_copy)


def _change_quorum(policy: Policy, state: ClusterState, primary: MemberState, seen: Observation) -> Decision | None:
    """Return the next step of a change of the quorum, or None if the quorum is as desired.

    During a change, the stored quorum is the union of both sets with the smaller number of acknowledgements. It is
    valid for commits of both configurations. Each change has its own epoch, so that no delayed action of the previous
    configuration can lower the number of acknowledgements or let a removed member acknowledge.
    """
    target = _target_quorum(policy, state, primary, seen)
    if target == state.quorum and not state.changing:
        wrong = (
            primary.epoch != state.epoch
            or primary.ack_count != target.acks
            or primary.semi_sync_source != (target.acks > 0)
        )
        return _set_acks(state, primary, target.acks) if wrong else None
    both = tuple(dict.fromkeys((*state.quorum.members, *target.members)))
    joint = Quorum(both, min(state.quorum.acks, target.acks))
    if joint != state.quorum or not state.changing:
        added = [name for name in target.members if name not in state.quorum.members]
        joined = (Notice("ScaledUp", f"{', '.join(added)} joined the quorum"),) if added else ()
        changing = replace(state, quorum=joint, changing=True, baseline="", epoch=state.epoch + 1)
        return Decision(store=changing, notices=(*joined, *_degraded(policy, state, target)), after=POLL_SECONDS)
    waits = (
        primary.epoch == state.epoch
        and primary.ack_count >= target.acks
        and (primary.semi_sync_source or not target.acks)
    )
    if not waits:
        ready = len(_acknowledging(target, state, primary, seen)) >= target.acks
        return _set_acks(state, primary, target.acks) if ready else None
    if not _removed_are_silent(target, state, seen):
        return None
    if not state.baseline:
        return Decision(store=replace(state, baseline=str(primary.logged) or "-"), after=POLL_SECONDS)
    baseline = GtidSet.parse(state.baseline.strip("-"))
    holders = [each for each in _acknowledging(target, state, primary, seen) if each.received.contains(baseline)]
    if len(holders) < target.acks:
        return None
    stored = replace(state, quorum=target, changing=False, baseline="")
    return Decision(store=stored, notices=_scaled(state, target), after=POLL_SECONDS)


def _set_acks(state: ClusterState, primary: MemberState, acks: int) -> Decision:
    return Decision(actions=(SetAckCount(member=primary.name, epoch=state.epoch, ack_count=acks),), after=POLL_SECONDS)


def _target_quorum(policy: Policy, state: ClusterState, primary: MemberState, seen: Observation) -> Quorum:
    """Return the desired quorum: the members that stay, and the new members that replicate."""
    members = tuple(
        name
        for name in policy.members
        if name in state.quorum.members
        or (seen.get(name).follows(primary.name, state.epoch) and seen.get(name).complete and not state.is_errant(name))
    )
    if primary.name not in members:
        members = (primary.name, *members)
    return Quorum(members, _target_acks(policy, state, primary, members, seen))


def _target_acks(
    policy: Policy, state: ClusterState, primary: MemberState, members: tuple[str, ...], seen: Observation
) -> int:
    """Return the acknowledgements that commits should wait for.

    With `degrade_to_async` the number falls to the number of connected replicas while commits wait, and rises again
    with the replicas. A quorum with fewer acknowledgements needs more fenced members. So a failover of a degraded
    cluster is blocked until the data of the primary can be read.
    """
    wanted = policy.acks(len(members))
    if not policy.degrade_to_async:
        return wanted
    # The epoch is not compared: it rises with each change of the quorum, before the replicas store it.
    present = [each for each in seen.select(members) if each.source == primary.name and each.io_running]
    possible = min(wanted, sum(each.reachable and each.semi_sync_replica for each in present))
    return possible if possible >= state.quorum.acks or primary.commits_waiting else min(wanted, state.quorum.acks)


def _acknowledging(target: Quorum, state: ClusterState, primary: MemberState, seen: Observation) -> list[MemberState]:
    members = seen.select([name for name in target.members if name != primary.name])
    return [each for each in members if each.follows(primary.name, state.epoch) and each.semi_sync_replica]


def _removed_are_silent(target: Quorum, state: ClusterState, seen: Observation) -> bool:
    """Return whether all members that leave the quorum have stopped acknowledging."""
    removed = seen.select([name for name in state.quorum.members if name not in target.members])
    return all(member.reachable and not member.io_running and member.epoch >= state.epoch for member in removed)


def _degraded(policy: Policy, state: ClusterState, target: Quorum) -> tuple[Notice, ...]:
    if target.acks >= state.quorum.acks or set(target.members) != set(state.quorum.members):
        return ()
    text = f"commits wait for {target.acks} acknowledgements instead of {policy.acks(len(target.members))}"
    return (Notice("ReplicationDegraded", f"{text}: too few replicas are left", warning=True),)


def _scaled(state: ClusterState, target: Quorum) -> tuple[Notice, ...]:
    if len(target.members) == len(state.quorum.members) and set(target.members) == set(state.quorum.members):
        return ()
    # During a change, the stored quorum contains the previous and the next members.
    removed = [name for name in state.quorum.members if name not in target.members]
    if removed:
        return (Notice("ScaledDown", f"{', '.join(removed)} left the quorum"),)
    return ()
