"""The stored state in a cluster's status, and the fields that are for users alone. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from steersman import Condition, Conditions, replace
from steersman.models import merge_conditions

from mysqlcluster import names
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import (
    MemberStatus,
    MySQLClusterStatus,
    QuorumStatus,
    TransitionStatus,
    UpdateStatus,
)
from mysqlcluster.desired import Desired
from mysqlcluster.machine import ClusterState, Kind, Quorum, Step, Transition
from mysqlcluster.machine.failover import is_lost
from mysqlcluster.machine.state import Errant
from mysqlcluster.observation import MemberState, Observation, Role

__all__ = [
    "is_settled",
    "phase_of",
    "role_of",
    "seconds_of",
    "state_of",
    "time_text",
    "with_invalid_spec",
    "with_name_conflict",
    "with_observation",
    "with_state",
]


def state_of(status: MySQLClusterStatus) -> ClusterState:
    """Return the state that a status stores."""
    quorum = status.quorum
    transition = status.transition
    return ClusterState(
        primary=status.primary,
        epoch=status.epoch,
        quorum=Quorum(quorum.members, quorum.acks) if quorum else Quorum(),
        changing=quorum.changing if quorum else False,
        baseline=quorum.baseline if quorum else "",
        errant=tuple(Errant(each.name, each.errant, each.errant_confirmed) for each in status.members if each.errant),
        last_failover=seconds_of(status.last_failover),
        transition=Transition(
            kind=Kind(transition.kind),
            step=Step(transition.step),
            epoch=transition.epoch,
            source=transition.from_,
            target=transition.to,
            started_at=seconds_of(transition.started_at),
            reason=transition.reason,
        )
        if transition
        else None,
    )


def with_state(status: MySQLClusterStatus, state: ClusterState) -> MySQLClusterStatus:
    """Return a status that stores the state."""
    transition = state.transition
    errant = {each.name: each for each in state.errant}
    known = {each.name: each for each in status.members}
    members = [
        replace(
            known.get(name) or MemberStatus(name=name, role="None"),
            errant=errant[name].gtid if name in errant else "",
            errant_confirmed=name in errant and errant[name].confirmed,
        )
        for name in dict.fromkeys((*known, *errant))
    ]
    return replace(
        status,
        primary=state.primary,
        epoch=state.epoch,
        quorum=QuorumStatus(
            members=state.quorum.members, acks=state.quorum.acks, changing=state.changing, baseline=state.baseline
        )
        if state.quorum.members
        else None,
        members=tuple(members),
        last_failover=time_text(state.last_failover),
        transition=TransitionStatus(
            kind=transition.kind,
            step=transition.step,
            epoch=transition.epoch,
            from_=transition.source,
            to=transition.target,
            started_at=time_text(transition.started_at),
            reason=transition.reason,
        )
        if transition
        else None,
    )


def with_observation(
    status: MySQLClusterStatus,
    want: Desired,
    generation: int,
    seen: Observation,
    blocked: str,
    now: datetime,
    update_blocked: str = "",
    more: Conditions = (),
) -> MySQLClusterStatus:
    """Return the status with the reports of the members and the reasons that block the primary or an upgrade."""
    state = state_of(status)
    errant = {each.name: each for each in state.errant}
    members = tuple(
        MemberStatus(
            name=member.name,
            role=role_of(state, member),
            gtid=str(member.executed),
            lag_seconds=member.lag_seconds,
            version=member.version,
            errant=errant[member.name].gtid if member.name in errant else "",
            errant_confirmed=member.name in errant and errant[member.name].confirmed,
        )
        for member in seen.members
    )
    primary = seen.get(state.primary)
    return replace(
        status,
        observed_generation=generation,
        nodes=tuple(member.name for member in seen.members),
        phase=phase_of(want, state, seen, blocked, updating=status.update is not None and _updates(status.update)),
        members=members,
        size=len(seen.members),
        selector=names.selector(want.key.name),
        current_version=primary.version or status.current_version,
        conditions=merge_conditions(
            status.conditions, (*_conditions(want, state, seen, blocked, update_blocked), *more), now, generation
        ),
    )


def is_settled(before: MySQLClusterStatus, after: MySQLClusterStatus) -> bool:
    """Return whether a cluster runs, and its status differs at most in transactions and lag from the one before."""
    return after.phase == "Running" and _without_transactions(before) == _without_transactions(after)


def _without_transactions(status: MySQLClusterStatus) -> MySQLClusterStatus:
    return replace(status, members=tuple(replace(each, gtid="", lag_seconds=None) for each in status.members))


def with_invalid_spec(status: MySQLClusterStatus, generation: int, message: str, now: datetime) -> MySQLClusterStatus:
    """Return the status of a cluster with an invalid spec; the running members do not change."""
    return _blocked(status, generation, "InvalidSpec", message, now)


def with_name_conflict(status: MySQLClusterStatus, generation: int, message: str, now: datetime) -> MySQLClusterStatus:
    """Return the status of a cluster when another object owns the children with its name."""
    return _blocked(status, generation, "NameConflict", message, now)


def _blocked(
    status: MySQLClusterStatus, generation: int, reason: str, message: str, now: datetime
) -> MySQLClusterStatus:
    found = (_condition("Progressing", False, "", reason, message),)
    conditions = merge_conditions(status.conditions, found, now, generation)
    return replace(status, observed_generation=generation, phase="Blocked", conditions=conditions)


def role_of(state: ClusterState, member: MemberState) -> str:
    """Return the role for the label of a member's Pod: primary, replica or empty."""
    if not member.usable or state.is_errant(member.name):
        return ""
    if member.name == state.primary:
        # The epoch of the member is lower than the stored one while the quorum changes; the primary stays the same.
        writable = member.role is Role.PRIMARY and not member.read_only
        leaving = state.transition is not None and state.transition.step not in (Step.SUSPECT, Step.REPOINT)
        return "primary" if writable and not leaving else ""
    follows = member.role is Role.REPLICA and member.sql_running and member.complete
    return "replica" if follows else ""


def _updates(update: UpdateStatus) -> bool:
    return update.phase not in ("Idle", "Failed")


def phase_of(want: Desired, state: ClusterState, seen: Observation, blocked: str, *, updating: bool = False) -> str:
    """Return the phase of a cluster."""
    transition = state.transition
    if transition is not None:
        if blocked:
            return "Blocked"
        if transition.kind is Kind.BOOTSTRAP:
            return "Restoring" if want.from_backup else "Initializing"
        return "SwitchingOver" if transition.kind is Kind.SWITCHOVER else "FailingOver"
    if not state.primary:
        return "Blocked" if any(member.initialized for member in seen.members) and blocked else "Pending"
    if updating and not is_lost(seen.get(state.primary)):
        return "Updating"
    return "Running" if _is_healthy(want, state, seen) else "Degraded"


def _is_healthy(want: Desired, state: ClusterState, seen: Observation) -> bool:
    if state.transition is not None or is_lost(seen.get(state.primary)):
        return False
    followers = [member for member in seen.members if member.follows(state.primary, state.epoch) and member.complete]
    return len(followers) == want.size - 1 and len(state.quorum.members) == want.size and not state.changing


def _conditions(want: Desired, state: ClusterState, seen: Observation, blocked: str, update_blocked: str) -> Conditions:
    refused = [f"spec.config: {each.name}: {each.settings_error}" for each in seen.members if each.settings_error]
    update_blocked = "; ".join(filter(None, (update_blocked, *refused)))
    primary = seen.get(state.primary)
    available = primary.usable and primary.role is Role.PRIMARY and not primary.read_only
    healthy = _is_healthy(want, state, seen)
    changing = state.transition is not None or state.changing
    ready = _failover_ready(state, seen)
    return (
        _condition("Available", available, "PrimaryWritable", "NoPrimary", f"primary: {state.primary or 'none'}"),
        _condition("Healthy", healthy, "AllMembersReplicate", "MembersMissing", _health_text(want, state, seen)),
        _condition("Initialized", bool(state.primary), "HasPrimary", "NoPrimary", ""),
        _condition("Progressing", changing, "Transition", "Blocked" if blocked else "Stable", blocked),
        _condition("FailoverReady", ready, "EnoughReplicas", "TooFewReplicas", f"quorum: {_quorum_text(state)}"),
        _condition("UpdateBlocked", bool(update_blocked), "Refused", "NotBlocked", update_blocked),
    )


def _failover_ready(state: ClusterState, seen: Observation) -> bool:
    fit = [
        member
        for member in seen.select(state.quorum.members)
        if member.follows(state.primary, state.epoch) and member.complete and not state.is_errant(member.name)
    ]
    return len(fit) >= state.quorum.required() > 0


def _condition(kind: str, holds: bool, yes: str, no: str, message: str) -> Condition:
    return Condition(type=kind, status="True" if holds else "False", reason=yes if holds else no, message=message)


def _health_text(want: Desired, state: ClusterState, seen: Observation) -> str:
    missing: Sequence[str] = [
        member.name
        for member in seen.members
        if member.name != state.primary and not member.follows(state.primary, state.epoch)
    ]
    return f"not replicating: {', '.join(missing)}" if missing else f"{want.size} members"


def _quorum_text(state: ClusterState) -> str:
    return f"{state.quorum.acks} of {len(state.quorum.members)} members acknowledge"


def seconds_of(text: str) -> float:
    """Return a time in RFC 3339 as Unix time; 0 for an empty text."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def time_text(seconds: float) -> str:
    """Return a Unix time as RFC 3339; empty for 0."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z") if seconds else ""
