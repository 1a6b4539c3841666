"""The effect of the fields `failover` and `replication` on decisions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from steersman.k8s.events_v1 import Event
from steersman.testing import simulated

from mysqlcluster.actions import ConfirmComplete, Demote, Fence, SetAckCount
from mysqlcluster.gtid import GtidSet
from mysqlcluster.machine import ClusterState, Decision, Kind, Policy, Quorum, Step, Transition, decide
from mysqlcluster.observation import MemberState, Observation, Role, unreachable

from .simulated import ORIGIN
from .test_controller import fetched, running

NAMES = ("db-0", "db-1", "db-2")
SUSPECTED = ClusterState(
    primary="db-0",
    epoch=3,
    quorum=Quorum(NAMES, 1),
    transition=Transition(Kind.FAILOVER, Step.SUSPECT, 3, source="db-0", started_at=90.0),
)
HEALTHY = replace(SUSPECTED, transition=None)


def gtids(last: int) -> GtidSet:
    return GtidSet({ORIGIN: [(1, last)]})


def replica(name: str, *, executed: int = 5, received: int = 5, lag: float | None = None) -> MemberState:
    return MemberState(
        name,
        server_up=True,
        initialized=True,
        complete=True,
        epoch=3,
        role=Role.REPLICA,
        executed=gtids(executed),
        retrieved=gtids(received),
        source="db-0",
        sql_running=True,
        semi_sync_replica=True,
        lag_seconds=lag,
    )


def primary(*, acks: int = 1, waiting: int = 0, epoch: int = 3) -> MemberState:
    return MemberState(
        "db-0",
        server_up=True,
        initialized=True,
        complete=True,
        epoch=epoch,
        role=Role.PRIMARY,
        read_only=False,
        executed=gtids(5),
        semi_sync_source=acks > 0,
        ack_count=acks,
        commits_waiting=waiting,
    )


def suspect(*replicas: MemberState, force: bool = False) -> Decision:
    policy = Policy(NAMES, max_lag_seconds=30.0, force=force)
    return decide(policy, SUSPECTED, Observation((unreachable("db-0"), *replicas), 100.0))


@pytest.mark.parametrize(("used", "blocked"), [(0.9, "replicas still receive from db-0"), (1.0, "")])
def test_a_replica_that_waits_for_space_does_not_delay_a_failover_as_one_that_receives_does(used: float, blocked: str):
    waiting = replace(replica("db-1"), io_running=True, disk_used_ratio=used)
    decision = suspect(waiting, replica("db-2"))
    assert (decision.blocked, decision.store is None) == (blocked, bool(blocked))


def fenced_with_a_former_primary(source: MemberState) -> Decision:
    """Decide about a source of 5 transactions, when db-2 has 4 of them and db-1 has 3 and one of its own."""
    transition = Transition(Kind.FAILOVER, Step.FENCE, 4, source="db-0", started_at=90.0)
    former = replace(
        replica("db-1", executed=3, received=3),
        epoch=4,
        executed=gtids(3).union(GtidSet({"0b5f1a52-aaaa-11f0-8000-000000000001": [(1, 1)]})),
    )
    other = replace(replica("db-2", executed=4, received=4), epoch=4)
    fencing = replace(SUSPECTED, epoch=4, transition=transition)
    return decide(Policy(NAMES), fencing, Observation((source, former, other), 100.0))


def test_errant_transactions_of_a_former_primary_block_a_second_failover_until_the_source_answers():
    """Only the source can tell them from acknowledged transactions that no other member has received."""
    lost = fenced_with_a_former_primary(unreachable("db-0"))
    assert (lost.store, lost.actions) == (None, ())
    assert "db-0 decides when it answers" in lost.blocked
    back = fenced_with_a_former_primary(replace(primary(), role=Role.NONE, read_only=True))
    assert back.actions == (Demote(member="db-0", epoch=4),)
    stopped = fenced_with_a_former_primary(replace(primary(epoch=4), role=Role.NONE, read_only=True))
    assert stopped.store is not None
    assert stopped.store.transition is not None
    assert (stopped.store.transition.step, stopped.store.transition.target) == (Step.APPLY, "db-0")


def test_an_incomplete_source_does_not_decide_about_the_transactions_of_others():
    decision = fenced_with_a_former_primary(replace(primary(epoch=4), role=Role.NONE, read_only=True, complete=False))
    assert decision.store is None
    assert "no member has the transactions of all others" in decision.blocked


@pytest.mark.parametrize(("behind", "chosen"), [(0, "db-2"), (1, "db-1")], ids=["equal", "behind"])
def test_a_failover_prefers_a_volume_with_space_only_among_members_with_all_transactions(behind: int, chosen: str):
    transition = Transition(Kind.FAILOVER, Step.FENCE, 4, source="db-0", started_at=90.0)
    fencing = replace(SUSPECTED, epoch=4, transition=transition)
    full = replace(replica("db-1"), epoch=4, disk_used_ratio=1.0)
    other = replace(replica("db-2", executed=5 - behind, received=5 - behind), epoch=4)
    decision = decide(Policy(NAMES), fencing, Observation((unreachable("db-0"), full, other), 100.0))
    assert decision.store is not None
    assert decision.store.transition is not None
    assert (decision.store.transition.step, decision.store.transition.target) == (Step.APPLY, chosen)


def test_a_member_whose_server_does_not_answer_is_fenced_when_the_others_do_not_suffice():
    transition = Transition(Kind.FAILOVER, Step.FENCE, 4, source="db-0", started_at=90.0)
    fencing = replace(SUSPECTED, epoch=4, transition=transition)
    silent = replace(replica("db-1"), server_up=False)

    def decided(other: MemberState) -> Decision:
        return decide(Policy(NAMES), fencing, Observation((unreachable("db-0"), silent, other), 100.0))

    first = decided(replace(replica("db-2"), io_running=True))
    assert [(type(each), each.member) for each in first.actions] == [(Fence, "db-2")]
    second = decided(replace(replica("db-2"), epoch=4))
    assert second.actions == (Fence(member="db-1", epoch=4),)
    assert "2 replicas must be fenced" in second.blocked


def test_a_failover_waits_while_the_replica_with_all_transactions_lags_too_much():
    decision = suspect(replica("db-1", executed=2, lag=31.0), replica("db-2", received=4, executed=4))
    assert decision.store is None
    assert decision.actions == ()
    assert "db-1" in decision.blocked
    assert "failover.maxLagSeconds (30)" in decision.blocked


@pytest.mark.parametrize(
    "replicas",
    [
        pytest.param(
            (replica("db-1", executed=2, lag=30.0), replica("db-2", received=4)), id="the lag is small enough"
        ),
        pytest.param((replica("db-1", lag=90.0), replica("db-2", received=4)), id="nothing is left to execute"),
        pytest.param((replica("db-1", executed=2, lag=90.0), replica("db-2")), id="another one has executed all"),
        pytest.param((replica("db-1", executed=2), replica("db-2", executed=2)), id="the lag is not known"),
    ],
)
def test_a_failover_goes_on(replicas):
    decision = suspect(*replicas)
    assert decision.store is not None
    assert decision.store.transition is not None
    assert decision.store.transition.step is Step.FENCE


def test_a_forced_failover_does_not_wait_for_a_lagging_replica():
    assert suspect(replica("db-1", executed=2, lag=31.0), unreachable("db-2"), force=True).store is not None


def watch(degrade: bool, state: ClusterState, *members: MemberState) -> Decision:
    policy = Policy(NAMES, max_ack_count=1, degrade_to_async=degrade)
    return decide(policy, state, Observation(members, 100.0))


GONE = (unreachable("db-1"), unreachable("db-2"))


def test_commits_wait_for_replicas_that_are_gone_unless_the_user_lets_them_go_on():
    assert watch(False, HEALTHY, primary(waiting=1), *GONE).store is None


def test_commits_go_on_without_acknowledgements_once_one_waits_in_vain():
    assert watch(True, HEALTHY, primary(), *GONE).store is None
    decision = watch(True, HEALTHY, primary(waiting=1), *GONE)
    assert decision.store is not None
    assert (decision.store.quorum, decision.store.epoch) == (Quorum(NAMES, 0), 4)
    assert [notice.reason for notice in decision.notices] == ["ReplicationDegraded"]
    after = watch(True, decision.store, primary(waiting=1), *GONE)
    assert after.actions == (SetAckCount(member="db-0", epoch=4, ack_count=0),)


def test_a_degraded_cluster_does_not_fail_over_because_only_the_primary_may_have_the_last_commits():
    assert Quorum(NAMES, 0).required() == len(NAMES)
    transition = replace(SUSPECTED.transition, step=Step.FENCE)
    state = replace(SUSPECTED, quorum=Quorum(NAMES, 0), transition=transition)
    fenced = [replace(replica(name), role=Role.NONE, source="") for name in NAMES[1:]]
    decision = watch(True, state, unreachable("db-0"), *fenced)
    assert decision.store is None
    assert "3 replicas must be fenced" in decision.blocked


def test_acknowledgements_return_with_the_replicas():
    degraded = replace(HEALTHY, quorum=Quorum(NAMES, 0))
    back = replace(replica("db-1"), io_running=True)
    decision = watch(True, degraded, primary(acks=0), back, unreachable("db-2"))
    assert decision.store is not None
    assert decision.store.changing
    follows = replace(back, epoch=4)
    raised = watch(True, decision.store, primary(acks=0), follows, unreachable("db-2"))
    assert raised.actions == (SetAckCount(member="db-0", epoch=4, ack_count=1),)


@pytest.mark.parametrize(("received", "asked"), [(19_990, True), (5, False)])
def test_a_restarted_replica_is_asked_whether_it_is_complete_although_writes_go_on(received: int, asked: bool):
    busy = replace(primary(), executed=gtids(20_000))
    restarted = replace(replica("db-1", executed=received, received=received), complete=False, io_running=True)
    decision = watch(False, HEALTHY, busy, restarted, replace(replica("db-2"), io_running=True))
    confirm = ConfirmComplete(member="db-1", epoch=3, received=str(busy.executed))
    assert (confirm in decision.actions) is asked


@simulated(seed=21)
async def test_a_blocked_failover_is_told_in_the_status_and_in_one_event(simulation):
    servers = await running(simulation)
    for name in ("db-1", "db-2"):
        servers.members[name] = replace(servers.members[name], retrieved=gtids(9), lag_seconds=3600.0)
    servers.crash("db-0")
    await simulation.passes(seconds=30)
    status = (await fetched(simulation)).status
    assert (status.phase, status.primary) == ("Blocked", "db-0")
    (progressing,) = [each for each in status.conditions if each.type == "Progressing"]
    assert "failover.maxLagSeconds" in progressing.message
    found = await simulation.client.list(Event, namespace="default")
    blocked = [each for each in found if each.reason == "FailoverBlocked"]
    assert len(blocked) == 1
    assert "failover.maxLagSeconds" in (blocked[0].note or "")

    for name in ("db-1", "db-2"):
        servers.members[name] = replace(servers.members[name], executed=gtids(9), lag_seconds=None)
    await simulation.passes(seconds=30)
    assert (await fetched(simulation)).status.primary in ("db-1", "db-2")
