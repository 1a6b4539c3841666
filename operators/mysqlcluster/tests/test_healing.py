"""A copy of the primary's data repairs a replica whose replication has stopped permanently."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mysqlcluster.actions import Clone, Demote, SetSource
from mysqlcluster.machine import ClusterState, Policy, Quorum, decide
from mysqlcluster.observation import CloneProgress, MemberState, Observation

from .test_failover_policy import NAMES, gtids, primary, replica

STATE = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))


def broken(name: str, error: str) -> MemberState:
    return replace(replica(name), io_running=True, sql_running=False, sql_error=error)


def actions(*members: MemberState):
    policy = Policy(NAMES, max_ack_count=1)
    return decide(policy, STATE, Observation((primary(), *members), 100.0)).actions


def following(name: str) -> MemberState:
    return replace(replica(name), io_running=True, lag_seconds=0.0)


@pytest.mark.parametrize("error", ["1062: Duplicate entry", "1032: Can't find record", "1146: Table doesn't exist"])
def test_a_replica_that_differs_is_cloned_and_its_old_data_is_kept(error):
    (action,) = actions(broken("db-1", error), following("db-2"))
    assert isinstance(action, Clone)
    assert (action.member, action.source, action.keep_copy) == ("db-1", "db-0", True)


def test_a_replica_whose_binary_logs_are_gone_at_the_source_is_cloned():
    lost = replace(replica("db-1"), io_running=False, io_error="1236: Could not find GTID state")
    (action,) = actions(lost, following("db-2"))
    assert isinstance(action, Clone)


@pytest.mark.parametrize("error", ["1205: Lock wait timeout", "1021: Disk full", ""])
def test_replication_that_can_go_on_is_started_again(error):
    (action,) = actions(broken("db-1", error), following("db-2"))
    assert isinstance(action, SetSource)


def test_an_error_of_the_past_changes_nothing():
    assert actions(replace(following("db-1"), sql_error="1062: Duplicate entry"), following("db-2")) == ()


def test_replicas_are_cloned_one_after_the_other():
    running = replace(broken("db-1", "1062: Duplicate entry"), clone=CloneProgress("db-0", running=True))
    found = actions(running, broken("db-2", "1062: Duplicate entry"))
    assert not any(isinstance(action, Clone) for action in found)
    both = actions(broken("db-1", "1062: Duplicate entry"), broken("db-2", "1062: Duplicate entry"))
    assert [action.member for action in both] == ["db-1"]


def stalled(seconds: float, *members: MemberState):
    waiting = replace(primary(waiting=1), commit_seconds=seconds)
    policy = Policy(NAMES, max_ack_count=1)
    return decide(policy, STATE, Observation((waiting, *members), 100.0)).actions


def test_a_primary_whose_acknowledgements_were_lost_is_demoted_so_that_its_commits_end():
    (action,) = stalled(5.0, following("db-1"), following("db-2"))
    assert action == Demote(member="db-0", epoch=3, drain_seconds=0.0)
    assert stalled(4.9, following("db-1"), following("db-2")) == ()


def test_commits_that_wait_for_a_replica_without_their_transactions_are_not_ended():
    behind = replace(following("db-1"), executed=gtids(4), retrieved=gtids(4))
    assert stalled(60.0, behind, replace(behind, name="db-2")) == ()
