"""The entry point of the state machine: it dispatches on the stored step."""

from __future__ import annotations

from mysqlcluster.machine import failover, steady, switchover
from mysqlcluster.machine.state import ClusterState, Decision, Kind, Policy, Step
from mysqlcluster.observation import Observation

__all__ = ["decide"]


def decide(policy: Policy, state: ClusterState, seen: Observation) -> Decision:
    """Return the next decision: a state to store before any action, or actions on the members.

    Args:
        policy: The desired state.
        state: The stored state, which was read before `seen`.
        seen: The members; the replicas were read first, the primary of `state` last.
    """
    if policy.paused:
        return Decision(after=60.0)
    transition = state.transition
    if transition is None:
        return (
            steady.watch(policy, state, seen) if state.primary else failover.begin_without_primary(policy, state, seen)
        )
    match transition.kind, transition.step:
        case _, Step.SUSPECT:
            return failover.suspect(policy, state, transition, seen)
        case _, Step.FENCE:
            return failover.fence(policy, state, transition, seen)
        case _, Step.APPLY:
            return failover.apply_relay_log(policy, state, transition, seen)
        case Kind.BOOTSTRAP, Step.INITIALIZE:
            return failover.initialize(policy, state, transition, seen)
        case Kind.SWITCHOVER, Step.FREEZE:
            return switchover.freeze(policy, state, transition, seen)
        case _, Step.PROMOTE:
            return failover.promote(policy, state, transition, seen)
        case _:
            return steady.repoint(policy, state, transition, seen)
