"""Failures of other operators, and the decisions of this operator in the same situations."""

from __future__ import annotations

from msgspec.structs import replace

from mysqlcluster.actions import Clone
from mysqlcluster.gtid import GtidSet
from mysqlcluster.machine import ClusterState, Decision, Kind, Policy, Quorum, Step, Transition, decide
from mysqlcluster.observation import MemberState, Observation, Role, unreachable
from mysqlcluster.status import role_of

from .test_failover_policy import NAMES, gtids, primary, replica

HEALTHY = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))
FENCING = replace(HEALTHY, epoch=4, transition=Transition(Kind.FAILOVER, Step.FENCE, 4, source="db-0", started_at=90.0))


def look(state: ClusterState, *members: MemberState, **policy: object) -> Decision:
    wanted = Policy(NAMES, max_ack_count=1, **policy)  # type: ignore[arg-type]
    return decide(wanted, state, Observation(members, 100.0))


def following(name: str) -> MemberState:
    return replace(replica(name), io_running=True, lag_seconds=0.0)


def stopped(name: str, last: int) -> MemberState:
    return replace(replica(name, executed=last, received=last), role=Role.NONE, source="")


def fenced(name: str, executed: int, **more: object) -> MemberState:
    return replace(replica(name, executed=executed, received=executed), epoch=4, **more)


def test_a_lagging_primary_makes_no_replica_errant_and_purges_none():
    """A primary that was read before its replicas seems to lack transactions, so one observation is not enough."""
    behind = replace(primary(), executed=gtids(4))
    first = look(HEALTHY, behind, stopped("db-1", 5), stopped("db-2", 5), reclone=True)
    assert first.store is not None
    assert [each.confirmed for each in first.store.errant] == [False, False]
    assert not any(isinstance(action, Clone) for action in first.actions)
    second = look(first.store, primary(), stopped("db-1", 5), stopped("db-2", 5), reclone=True)
    assert second.store is not None
    assert second.store.errant == ()


def test_a_replica_that_receives_from_the_primary_is_never_errant():
    behind = replace(primary(), executed=gtids(4))
    decision = look(HEALTHY, behind, following("db-1"), following("db-2"), reclone=True)
    assert decision.store is None or decision.store.errant == ()


def test_a_transaction_whose_commit_waits_is_not_errant_on_a_replica():
    waiting = replace(primary(), executed=gtids(4), committing=GtidSet.parse(str(gtids(5))))
    decision = look(HEALTHY, waiting, stopped("db-1", 5), following("db-2"))
    assert decision.store is None or decision.store.errant == ()


def test_a_second_failover_counts_what_was_executed_when_nothing_was_received_since_the_first():
    fresh = replace(fenced("db-1", 5), retrieved=GtidSet())
    stale = fenced("db-2", 4)
    decision = look(FENCING, unreachable("db-0"), fresh, stale)
    assert decision.store is not None
    assert decision.store.transition is not None
    assert decision.store.transition.target == "db-1"


def test_a_failover_right_after_another_waits_for_the_interval():
    suspected = replace(
        HEALTHY,
        last_failover=95.0,
        transition=Transition(Kind.FAILOVER, Step.SUSPECT, 3, source="db-0", started_at=90.0),
    )
    decision = look(suspected, unreachable("db-0"), replica("db-1"), replica("db-2"), min_interval_seconds=60.0)
    assert decision.store is None
    assert "failover.minIntervalSeconds" in decision.blocked


def test_a_dead_member_has_no_role_label():
    assert role_of(HEALTHY, unreachable("db-0")) == ""
    assert role_of(HEALTHY, unreachable("db-1")) == ""
    assert role_of(HEALTHY, replace(primary(), server_up=False)) == ""


def test_of_equal_members_the_older_version_is_promoted_because_the_newer_one_cannot_be_followed():
    newer, older = fenced("db-1", 5, version="11.8.9-MariaDB"), fenced("db-2", 5, version="10.11.19-MariaDB")
    decision = look(FENCING, unreachable("db-0"), newer, older)
    assert decision.store is not None
    assert decision.store.transition is not None
    assert decision.store.transition.target == "db-2"


def test_an_operator_that_starts_while_all_members_are_down_does_nothing_to_them():
    down = tuple(unreachable(name) for name in NAMES)
    unknown = look(ClusterState(), *down)
    assert (unknown.store, unknown.actions) == (None, ())
    assert "do not answer" in unknown.blocked
    suspected = look(HEALTHY, *down).store
    assert suspected is not None
    assert suspected.transition is not None
    fencing = look(replace(suspected, transition=replace(suspected.transition, started_at=0.0)), *down).store
    assert fencing is not None
    waits = look(fencing, *down)
    assert (waits.store, waits.actions) == (None, ())
    assert "2 replicas must be fenced" in waits.blocked
