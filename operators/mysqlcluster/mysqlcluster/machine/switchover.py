"""Planned change of the primary: the old one refuses writes, the new one catches up, then it is promoted."""

from __future__ import annotations

from msgspec.structs import replace

from mysqlcluster.actions import Demote, Fence
from mysqlcluster.machine.failover import POLL_SECONDS, begin, is_lost
from mysqlcluster.machine.state import ClusterState, Decision, Kind, Policy, Step, Transition
from mysqlcluster.observation import MemberState, Observation, Role

__all__ = ["freeze", "request", "target_of"]

MAX_LAG_SECONDS = 5.0
"""Greatest lag of a member that a switchover may begin with."""


def target_of(policy: Policy, state: ClusterState, seen: Observation) -> MemberState | str:
    """Return the target of a requested switchover, or the reason why no member can be the target."""
    if policy.switch_to in ("", "*"):
        names = [name for name in state.quorum.members if name in policy.members and name != state.primary]
    else:
        names = [policy.switch_to]
    if any(name not in state.quorum.members for name in names):
        return f"{names[0]} is not a member that acknowledges"
    able = [member for member in seen.select(names) if _is_able(state, member)]
    if not able:
        return f"{', '.join(names) or 'no other member'} cannot take over: not replicating, lagging or errant"
    return min(able, key=lambda member: (member.lag_seconds or 0.0, -member.executed.count, member.name))


def _is_able(state: ClusterState, member: MemberState) -> bool:
    lag = member.lag_seconds
    follows = member.follows(state.primary, state.epoch) and member.complete
    return follows and not state.is_errant(member.name) and (lag is None or lag <= MAX_LAG_SECONDS)


def request(state: ClusterState, target: str, reason: str, seen: Observation) -> Decision:
    """Return a state in which the switchover begins."""
    epoch = state.epoch + 1
    transition = Transition(
        Kind.SWITCHOVER, Step.FREEZE, epoch, source=state.primary, target=target, started_at=seen.time, reason=reason
    )
    return Decision(store=replace(state, epoch=epoch, transition=transition))


def freeze(policy: Policy, state: ClusterState, transition: Transition, seen: Observation) -> Decision:
    """Stop writes on the old primary, and wait until the target has executed all of them."""
    source, target = seen.get(transition.source), seen.get(transition.target)
    if is_lost(source):
        if seen.time - transition.started_at < policy.detection_seconds:
            return Decision(after=POLL_SECONDS)
        return begin(state, source.name, f"{source.name} was lost during a switchover", seen)
    frozen = source.epoch == transition.epoch and source.role is not Role.PRIMARY and source.read_only
    if not frozen:
        return Decision(actions=(Demote(member=source.name, epoch=transition.epoch),), after=POLL_SECONDS)
    if target.usable and target.complete and target.executed.contains(source.executed):
        if target.is_fenced(transition.epoch):
            return Decision(store=replace(state, transition=replace(transition, step=Step.PROMOTE)))
        return Decision(actions=(Fence(member=target.name, epoch=transition.epoch),), after=POLL_SECONDS)
    if seen.time - transition.started_at >= policy.catch_up_seconds:
        why = f"{target.name} did not catch up within {policy.catch_up_seconds:.0f} s"
        back = replace(transition, step=Step.PROMOTE, target=source.name, reason=why)
        return Decision(store=replace(state, transition=back))
    return Decision(after=POLL_SECONDS)
