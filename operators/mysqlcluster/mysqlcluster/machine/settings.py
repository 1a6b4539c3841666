"""Changes of server variables: dynamic ones on all members together, the others by restarts, one at a time."""

from __future__ import annotations

from mysqlcluster.actions import Restart, SetVariables
from mysqlcluster.machine import switchover
from mysqlcluster.machine.state import ClusterState, Decision, Policy
from mysqlcluster.observation import MemberState, Observation

__all__ = ["adjust", "is_whole"]

RESTART_POLL_SECONDS = 0.5


def is_whole(policy: Policy, state: ClusterState, seen: Observation) -> bool:
    """Return whether every member is in the quorum and follows the primary, so that one may restart."""
    if state.transition is not None or state.changing or state.errant:
        return False
    if set(state.quorum.members) != set(policy.members):
        return False
    replicas = [member for member in seen.select(policy.members) if member.name != state.primary]
    return all(member.follows(state.primary, state.epoch) and member.complete for member in replicas)


def adjust(policy: Policy, state: ClusterState, primary: MemberState, seen: Observation) -> Decision | None:
    """Return the next step towards the desired variables, or None if no step is possible or needed."""
    different = [
        member
        for member in seen.select(policy.members)
        if member.reachable
        and member.initialized
        and not member.clone.running
        and member.epoch == state.epoch
        and member.settings_revision != policy.settings_revision
    ]
    if different:
        values = dict(policy.settings)
        actions = tuple(
            SetVariables(member=member.name, epoch=state.epoch, values=values, revision=policy.settings_revision)
            for member in different
        )
        return Decision(actions=actions)
    if not is_whole(policy, state, seen):
        return None
    waiting = [member for member in seen.select(policy.members) if member.restart_required]
    if not waiting:
        return None
    replicas = [member for member in waiting if member.name != primary.name]
    chosen = replicas[0] if replicas else primary
    why = f"variables that only a restart changes: {', '.join(chosen.restart_required)}"
    if replicas or len(policy.members) == 1:
        return Decision(
            actions=(Restart(member=chosen.name, epoch=state.epoch, reason=why),), after=RESTART_POLL_SECONDS
        )
    target = switchover.target_of(policy, state, seen)
    if isinstance(target, str):
        return None
    return switchover.request(state, target.name, why, seen)
