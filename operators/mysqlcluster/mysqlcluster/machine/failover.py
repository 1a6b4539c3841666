"""Failover, and the first primary of a cluster: Suspect, Fence, Choose, Apply, Promote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mysqlcluster.actions import Action, ApplyRelayLog, Demote, Fence, Initialize, Promote, Restore, SetSource
from mysqlcluster.machine.state import ClusterState, Decision, Kind, Notice, Policy, Quorum, Step, Transition
from mysqlcluster.observation import MemberState, Observation, Role

__all__ = [
    "apply_relay_log",
    "begin",
    "begin_without_primary",
    "fence",
    "initialize",
    "is_lost",
    "promote",
    "suspect",
]

POLL_SECONDS = 0.2
"""Time between observations during a transition."""
FENCE_SECONDS = 2.0
"""Time that a sufficient fence still waits for replicas that answer and have not stopped."""
FULL_RATIO = 0.99
"""Used share of a volume from which on other members are preferred, because writes would wait for space."""


def is_lost(member: MemberState) -> bool:
    """Return whether a primary cannot continue: it does not answer, or it has lost its data."""
    return not (member.usable and member.complete)


def suspect(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Wait until the primary answers again, or has not answered for the detection time."""
    primary = seen.get(state.primary)
    if not is_lost(primary):
        return Decision(store=replace(state, transition=None))
    if seen.time - transition.started_at < policy.detection_seconds:
        return Decision(after=POLL_SECONDS)
    if any(_receives(replica, state.primary) for replica in _others(seen, state.primary)):
        return Decision(blocked=f"replicas still receive from {state.primary}", after=POLL_SECONDS)
    if not policy.failover and not policy.force:
        return Decision(blocked=f"{state.primary} is lost and failover is disabled", after=POLL_SECONDS)
    if seen.time - state.last_failover < policy.min_interval_seconds and not policy.force:
        text = f"the last failover was less than failover.minIntervalSeconds ({policy.min_interval_seconds:.0f}) ago"
        return Decision(blocked=text, after=1.0)
    if (slow := _lagging(policy, state, seen)) and not policy.force:
        text = (
            f"{', '.join(slow)} received transactions whose execution takes more than failover.maxLagSeconds"
            f" ({policy.max_lag_seconds:.0f})"
        )
        return Decision(blocked=text, after=1.0)
    return begin(state, state.primary, f"{state.primary} is lost", seen)


def _receives(replica: MemberState, primary: str) -> bool:
    """Return whether a replica receives from the primary; a thread that waits for space on a full volume does not."""
    return replica.io_running and replica.source == primary and replica.disk_used_ratio < FULL_RATIO


def _lagging(policy: Policy, state: ClusterState, seen: Observation) -> list[str]:
    """Return the candidates for the new primary if the backlog of each exceeds the greatest lag; otherwise none.

    The fence and the choice ignore the lag: only a member that has received all transactions can be chosen.
    """
    fit = [
        member
        for member in seen.select(state.quorum.members)
        if member.name != state.primary and member.usable and member.complete and not state.is_errant(member.name)
    ]
    best = [member for member in fit if all(member.received.contains(other.received) for other in fit)]
    slow = [member.name for member in best if _lags(member, policy.max_lag_seconds)]
    return slow if len(slow) == len(best) else []


def _lags(member: MemberState, most: float) -> bool:
    behind = member.lag_seconds is not None and member.lag_seconds > most
    return behind and not member.executed.contains(member.retrieved)


def begin(state: ClusterState, source: str, reason: str, seen: Observation, kind: Kind = Kind.FAILOVER) -> Decision:
    """Return a state with a new epoch and the step `Fence`."""
    epoch = 1 + max(state.epoch, *(member.epoch for member in seen.members), 0)
    transition = Transition(kind, Step.FENCE, epoch, source=source, started_at=seen.time, reason=reason)
    notice = Notice("FailoverStarted", f"epoch {epoch}: {reason}", warning=True)
    return Decision(store=replace(state, epoch=epoch, transition=transition, baseline=""), notices=(notice,))


def begin_without_primary(policy: Policy, state: ClusterState, seen: Observation) -> Decision:
    """Choose the first primary: an empty member of an empty cluster, or the most advanced member with data.

    Every member must answer, because an unreachable member may have newer data.
    """
    members = seen.select(policy.members)
    if missing := [member.name for member in members if not member.reachable]:
        return Decision(blocked=f"no primary is known, and {', '.join(missing)} do not answer", after=1.0)
    if any(member.initialized or member.epoch for member in members):
        everyone = replace(state, quorum=Quorum(policy.members, 0))
        return begin(everyone, "", "members have data, and no primary is stored", seen, Kind.RECOVERY)
    first = policy.members[0]
    transition = Transition(Kind.BOOTSTRAP, Step.INITIALIZE, 1, target=first, started_at=seen.time)
    return Decision(store=replace(state, epoch=1, quorum=Quorum((first,), 0), transition=transition))


def initialize(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Create the data of the first member."""
    member = seen.get(transition.target)
    if member.usable and member.complete:
        return Decision(store=replace(state, transition=replace(transition, step=Step.PROMOTE)))
    blocked = f"restore: {member.clone.error}" if member.clone.error else ""
    if not member.reachable or member.clone.running or member.initialized:
        return Decision(after=1.0, blocked=blocked)
    if policy.backup:
        until = {"until_time": policy.until_time, "until_gtid": policy.until_gtid}
        action = Restore(member=member.name, epoch=transition.epoch, backup=policy.backup, **until)
        return Decision(actions=(action,), after=1.0, blocked=blocked)
    return Decision(actions=(Initialize(member=member.name, epoch=transition.epoch),), after=1.0)


def fence(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Stop the replicas' acknowledgements, and choose among those that have stopped.

    All transactions that the source acknowledged are on the replicas of a sufficient fence, or on the source itself
    after it has stopped in this epoch.
    """
    fenced = _fenced(state, transition, seen)
    source = seen.get(transition.source) if transition.source else None
    stopped = source is not None and _has_stopped(source, transition.epoch)
    enough = _suffices(state.quorum, transition, fenced)
    waiting = [member for member in _to_fence(state, transition, seen) if member not in fenced]
    expired = seen.time - transition.started_at >= FENCE_SECONDS
    if (enough or stopped or policy.force) and fenced and (expired or not waiting):
        electable = [*fenced, source] if stopped and not enough and source is not None else fenced
        return _choose(state, transition, electable) or _choose_without_errant(state, transition, fenced, source)
    if stopped and source is not None and not waiting:
        return _choose_without_errant(state, transition, [], source)
    actions: list[Action] = [_stop(member, transition.epoch) for member in waiting]
    if source is not None and source.usable and not stopped:
        actions.append(Demote(member=source.name, epoch=transition.epoch))
    if actions:
        return Decision(actions=tuple(actions), after=POLL_SECONDS)
    # The server of a full volume does not report its replication; its agent gives it space when it is fenced.
    silent = [Fence(member=member.name, epoch=transition.epoch) for member in _silent(state, transition, seen)]
    blocked = _why_blocked(state.quorum, transition, fenced)
    return Decision(actions=tuple(silent), blocked=blocked, after=POLL_SECONDS)


def _stop(member: MemberState, epoch: int) -> Action:
    """Return the action that fences a member; a former primary must also refuse writes."""
    return (Demote if member.role is Role.PRIMARY else Fence)(member=member.name, epoch=epoch)


def _others(seen: Observation, primary: str) -> Iterable[MemberState]:
    return (member for member in seen.members if member.name != primary and member.reachable)


def _to_fence(state: ClusterState, transition: Transition, seen: Observation) -> list[MemberState]:
    """Return the members of the quorum that answer, without the source."""
    members = seen.select(state.quorum.members)
    return [member for member in members if member.name != transition.source and member.usable]


def _silent(state: ClusterState, transition: Transition, seen: Observation) -> list[MemberState]:
    """Return the members of the quorum, without the source, with an agent that answers and a server that does not."""
    members = seen.select(state.quorum.members)
    return [each for each in members if each.name != transition.source and each.reachable and not each.server_up]


def _fenced(state: ClusterState, transition: Transition, seen: Observation) -> list[MemberState]:
    """Return the fenced members with complete data."""
    return [
        member
        for member in _to_fence(state, transition, seen)
        if member.is_fenced(transition.epoch)
        and member.role is not Role.PRIMARY
        and member.complete
        and not state.is_errant(member.name)
    ]


def _has_stopped(source: MemberState, epoch: int) -> bool:
    """Return whether the source refuses writes in this epoch, so that no delayed action can reverse it."""
    return (
        source.usable
        and source.complete
        and source.epoch == epoch
        and source.role is not Role.PRIMARY
        and source.read_only
        and not source.io_running
    )


def _suffices(quorum: Quorum, transition: Transition, fenced: Sequence[MemberState]) -> bool:
    if transition.kind is Kind.RECOVERY:
        return len(fenced) == len(quorum.members)
    return len(fenced) >= quorum.required() > 0


def _why_blocked(quorum: Quorum, transition: Transition, fenced: Sequence[MemberState]) -> str:
    needed = len(quorum.members) if transition.kind is Kind.RECOVERY else quorum.required()
    names = ", ".join(member.name for member in fenced) or "none"
    return f"{needed} replicas must be fenced so that no acknowledged transaction is lost; fenced: {names}"


def _choose(state: ClusterState, transition: Transition, electable: Sequence[MemberState]) -> Decision | None:
    """Return the choice of a member that has the transactions of all electable members, or None if there is none."""
    best = [
        member
        for member in electable
        if all(member.received.contains(other.received) for other in electable if other is not member)
    ]
    if not best:
        return None
    target = min(best, key=_preference)
    chosen = replace(transition, step=Step.APPLY, target=target.name)
    return Decision(store=replace(state, transition=chosen))


def _choose_without_errant(
    state: ClusterState, transition: Transition, fenced: Sequence[MemberState], source: MemberState | None
) -> Decision:
    """Return the choice among the members without transactions that the source lacks, when the source has stopped.

    The source has all acknowledged transactions. A member with other transactions is a former primary; they are
    errant, and were not confirmed as such before the loss of the source.
    """
    if source is not None and _has_stopped(source, transition.epoch):
        electable = [member for member in (*fenced, source) if source.received.contains(member.received)]
        if (decision := _choose(state, transition, electable)) is not None:
            return decision
    demote = Demote(member=source.name, epoch=transition.epoch) if source is not None and source.usable else None
    sets = "; ".join(f"{member.name}: {member.received}" for member in fenced)
    text = f"no member has the transactions of all others ({sets})"
    if source is not None:
        text += f"; {transition.source} decides when it answers"
    return Decision(actions=(demote,) if demote else (), blocked=text, after=1.0)


def _preference(member: MemberState) -> tuple[tuple[int, ...], bool, int, str]:
    # A replica of a higher version can replicate from a source of a lower version, but not the reverse.
    full = member.disk_used_ratio >= FULL_RATIO
    return _version(member.version), full, -member.executed.count, member.name


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("-")[0].split(".") if part.isdigit())


def apply_relay_log(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Execute what the chosen member has received, before it accepts writes."""
    target = seen.get(transition.target)
    if not target.usable or target.epoch > transition.epoch or not target.complete:
        # The step `Promote` was never stored, so the target was not promoted: another member may be chosen.
        return begin(state, transition.source, f"{target.name} was lost before it was promoted", seen, transition.kind)
    if target.executed.contains(target.retrieved) and target.epoch == transition.epoch:
        return Decision(store=replace(state, transition=replace(transition, step=Step.PROMOTE)))
    return Decision(actions=(ApplyRelayLog(member=target.name, epoch=transition.epoch),), after=POLL_SECONDS)


def promote(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Make the chosen member writable, and make the fenced members replicate from it."""
    target = seen.get(transition.target)
    if target.reachable and target.epoch == transition.epoch and target.role is Role.PRIMARY and not target.read_only:
        done = replace(transition, step=Step.REPOINT)
        return Decision(store=replace(state, primary=target.name, transition=done), notices=_completed(transition))
    if is_lost(target):
        if seen.time - transition.started_at < policy.detection_seconds:
            return Decision(after=POLL_SECONDS)
        # The target may have been promoted and may have acknowledged writes: it becomes the source.
        return begin(state, target.name, f"{target.name} was lost while it was promoted", seen)
    actions: list[Action] = [
        SetSource(
            member=member.name,
            epoch=transition.epoch,
            source=target.name,
            host=policy.host(target.name),
            port=policy.port,
            acknowledge=True,
        )
        for member in _fenced(state, transition, seen)
        if member.name != target.name and target.logged.contains(member.received)
    ]
    actions.append(Promote(member=target.name, epoch=transition.epoch, ack_count=policy.acks_of(state.quorum)))
    return Decision(actions=tuple(actions), after=POLL_SECONDS)


def _completed(transition: Transition) -> tuple[Notice, ...]:
    text = f"{transition.target} is the primary in epoch {transition.epoch}"
    if transition.kind is Kind.SWITCHOVER:
        if transition.target == transition.source:
            return (Notice("SwitchoverAborted", f"{text}: {transition.reason}", warning=True),)
        return (Notice("SwitchoverCompleted", text),)
    if transition.kind is Kind.FAILOVER:
        return (Notice("FailoverCompleted", text),)
    return (Notice("Initialized", text),)
