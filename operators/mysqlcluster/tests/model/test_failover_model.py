"""No interleaving of small clusters loses an acknowledged transaction, and the search finds each injected error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from msgspec.structs import replace

from mysqlcluster.actions import Promote
from mysqlcluster.machine import Decision, Quorum, Step, failover
from mysqlcluster.observation import Role

from .search import Found, search
from .states import Limits, Member, Model, ModelState, decided, start


@pytest.fixture(autouse=True)
def _forget_decisions():
    """Clear the model's cache of decisions, because injected errors change them."""
    decided.cache_clear()
    yield
    decided.cache_clear()


def failed_over(current: ModelState) -> bool:
    return current.state.primary != "db-0" and current.state.transition is None


def run(model: Model, operators: int = 1, most: int = 100_000) -> Found:
    return search(model, start(len(model.names), operators), most=most, goal=failed_over)


@pytest.mark.parametrize(
    ("members", "operators", "limits"),
    [
        pytest.param(2, 2, Limits(writes=1, faults=1, missing=0, versions=9), id="2 members, 2 operators"),
        pytest.param(3, 1, Limits(writes=1, faults=2, missing=0, versions=10), id="3 members, 2 faults"),
        pytest.param(3, 2, Limits(writes=1, faults=1, missing=0, versions=9), id="3 members, 2 operators"),
        pytest.param(3, 1, Limits(writes=1, faults=1, missing=1, versions=7), id="3 members, wrong views"),
        pytest.param(3, 1, Limits(writes=1, faults=2, missing=0, versions=8, disks=1), id="3 members, a lost disk"),
        pytest.param(4, 1, Limits(writes=1, faults=1, missing=0, versions=9), id="4 members"),
        pytest.param(5, 1, Limits(writes=1, faults=1, missing=0, versions=9), id="5 members"),
    ],
)
def test_no_interleaving_loses_an_acknowledged_transaction(members, operators, limits):
    found = run(Model(members, limits), operators)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


@pytest.mark.parametrize("operators", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_switchover_in_which_members_fail_loses_nothing(operators):
    limits = Limits(writes=1, faults=1, missing=0, versions=7 - operators)
    found = run(Model(3, limits, switch_to="*"), operators, most=1_000_000)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


@pytest.mark.parametrize(
    ("members", "before", "wanted"),
    [
        pytest.param(3, 1, 3, id="from 1 to 3"),
        pytest.param(3, 2, 3, id="from 2 to 3"),
        pytest.param(3, 3, 2, id="from 3 to 2"),
        pytest.param(4, 3, 4, id="from 3 to 4"),
    ],
)
def test_a_change_of_size_in_which_members_fail_loses_nothing(members, before, wanted):
    model = Model(members, Limits(writes=1, faults=1, missing=0, versions=9), wanted=wanted)

    def done(current: ModelState) -> bool:
        return len(current.state.quorum.members) == wanted and not current.state.changing

    found = search(model, start(members, 1, quorum=before), most=200_000, goal=done)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


class PrimaryReports(Model):
    """Each observation shows these values on the primary."""

    values: ClassVar[Mapping[str, object]] = {}

    def decided(self, state, members):
        seen = tuple(replace(m, **self.values) if m.role is Role.PRIMARY else m for m in members)
        return super().decided(state, seen)


class CommitsThatWait(PrimaryReports):
    """The policy has `degrade_to_async`, and commits wait on the primary."""

    values: ClassVar[Mapping[str, object]] = {"commits_waiting": 1}

    def __init__(self, count, limits):
        super().__init__(count, limits)
        self.policy = replace(self.policy, degrade_to_async=True)


class CommitsThatStall(PrimaryReports):
    """Commits wait on the primary for lost acknowledgements."""

    values: ClassVar[Mapping[str, object]] = {"commit_seconds": 60.0}


@pytest.mark.parametrize("members", [2, 3])
def test_a_cluster_that_degrades_to_asynchronous_commits_fails_over_only_with_all_of_them(members):
    model = CommitsThatWait(members, Limits(writes=1, faults=1, missing=1, versions=6))

    def degraded(current: ModelState) -> bool:
        return current.state.quorum.acks == 0 and current.state.transition is None

    found = search(model, start(members, 1), most=200_000, goal=degraded)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


def test_a_primary_that_is_demoted_for_lost_acknowledgements_loses_nothing():
    model = CommitsThatStall(3, Limits(writes=1, faults=1, missing=1, versions=6))
    found = search(model, start(3, 1), most=200_000, goal=lambda current: current.state.epoch > 1)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("members", "operators", "limits"),
    [
        pytest.param(3, 2, Limits(writes=1, faults=1, missing=1, versions=9), id="3 members, 2 operators, wrong views"),
        pytest.param(
            3,
            2,
            Limits(writes=2, faults=2, missing=0, versions=10),
            id="3 members, 2 writes, 2 operators",
            marks=pytest.mark.soak,
        ),
        pytest.param(3, 1, Limits(writes=2, faults=3, missing=0, versions=12, disks=1), id="3 members, 3 faults"),
        pytest.param(5, 1, Limits(writes=1, faults=2, missing=0, versions=9), id="5 members, 2 faults"),
        pytest.param(
            5, 2, Limits(writes=1, faults=1, missing=0, versions=8), id="5 members, 2 operators", marks=pytest.mark.soak
        ),
    ],
)
def test_no_longer_interleaving_does_either(members, operators, limits):
    found = run(Model(members, limits), operators, most=500_000)
    assert found.violation == "", "\n".join(found.trace)
    assert found.reached > 0


class AgentsWithoutEpochs(Model):
    """Agents perform actions of old epochs."""

    def accepts(self, member, action):
        return True


class FencesThatDoNotHold(Model):
    """The I/O thread continues after the agent reports a fence."""

    def fenced(self, member):
        return member

    def decided(self, state, members):
        shown = tuple(replace(m, io_running=False) if m.epoch == state.epoch > 1 else m for m in members)
        return super().decided(state, shown)


class RestartsThatForget(Model):
    """A restart discards received transactions, but the member still counts as complete."""

    def _faults(self, current):
        for text, after in super()._faults(current):
            if text.endswith("loses its disk"):
                members = tuple(m if m.complete else m._replace(complete=True) for m in after.members)
                yield text, after._replace(members=members)
            else:
                yield text, after


def caught(model: Model, operators: int = 1, most: int = 300_000) -> str:
    found = run(model, operators, most)
    assert found.violation, f"nothing found in {found.states} states"
    return found.violation


def test_an_agent_that_accepts_old_epochs_is_found():
    caught(AgentsWithoutEpochs(3, Limits(writes=1, faults=2, missing=0, versions=6)), operators=2)


def test_a_fence_that_does_not_stop_acknowledgements_is_found():
    caught(FencesThatDoNotHold(3, Limits(writes=1, faults=1, missing=1, versions=8)))


def test_a_member_that_forgets_acknowledged_transactions_is_found():
    violation = caught(RestartsThatForget(3, Limits(writes=1, faults=2, missing=0, versions=8, disks=1)))
    assert "lacks acknowledged transactions" in violation


def test_a_fence_of_one_replica_too_few_is_found(monkeypatch):
    monkeypatch.setattr(Quorum, "required", lambda self: len(self.members) - self.acks - 1)
    caught(Model(3, Limits(writes=1, faults=1, missing=1, versions=8)))


def test_a_choice_that_ignores_what_others_have_received_is_found(monkeypatch):
    def choose_first(state, transition, electable):
        chosen = replace(transition, step=Step.APPLY, target=electable[0].name)
        return Decision(store=replace(state, transition=chosen))

    monkeypatch.setattr(failover, "_choose", choose_first)
    assert "lacks acknowledged transactions" in caught(Model(3, Limits(writes=1, faults=1, missing=0, versions=8)))


def test_counting_a_member_that_has_lost_its_data_is_found(monkeypatch):
    def fenced(state, transition, seen):
        members = seen.select(state.quorum.members)
        return [m for m in members if m.name != transition.source and m.is_fenced(transition.epoch)]

    monkeypatch.setattr(failover, "_fenced", fenced)
    model = Model(3, Limits(writes=1, faults=3, missing=0, versions=8, disks=1))
    assert "lacks acknowledged transactions" in caught(model)


def test_a_promotion_before_the_choice_is_stored_is_found(monkeypatch):
    def promote_at_once(state, transition, electable):
        """Two operators with different observations choose different members."""
        best = max(electable, key=lambda member: (member.received.count, len(electable), member.name))
        if len(electable) > 2:
            best = min(electable, key=lambda member: member.name)
        promote = Promote(member=best.name, epoch=transition.epoch, ack_count=0)
        return Decision(actions=(promote,))

    monkeypatch.setattr(failover, "_choose", promote_at_once)
    monkeypatch.setattr(Quorum, "required", lambda self: len(self.members) - self.acks)
    caught(Model(4, Limits(writes=1, faults=1, missing=1, versions=6)), operators=2)


def test_the_first_world_is_healthy():
    first = start(3, 1)
    assert first.members[0] == Member(role=first.members[0].role, ack_count=1)
    assert list(Model(3, Limits(0, 0, missing=0)).successors(first)) == []
