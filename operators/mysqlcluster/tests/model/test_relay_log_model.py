"""Replicas that acknowledge a transaction before they execute it: a new source must not discard the only copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mysqlcluster.actions import Action, ApplyRelayLog, Promote, SetSource
from mysqlcluster.observation import Role
from mysqlcluster.status import role_of

from .search import Found, search
from .states import NO_SOURCE, Limits, Member, Model, ModelState, observed, start, with_member

CHANGES = [pytest.param(3, 2, 3, id="from 2 to 3"), pytest.param(3, 3, 2, id="from 3 to 2")]


class RelayLogs(Model):
    """A received transaction is in the relay log until the member executes it.

    A restart discards the relay log, and so does a new source. The member then counts as incomplete.
    """

    def received(self, member: Member, bit: int) -> Member:
        return member._replace(relay=member.relay | bit)

    def restarted(self, member: Member) -> Member:
        return member._replace(relay=0, complete=member.complete and not member.relay)

    def _data(self, current: ModelState) -> Iterator[tuple[str, ModelState]]:
        yield from super()._data(current)
        for index, member in enumerate(current.members):
            if member.alive and member.relay:
                executed = member._replace(log=member.log | member.relay, relay=0)
                yield f"{index} executes", self.settled(with_member(current, index, executed))

    def act(self, current: ModelState, number: int, member: Member, action: Action) -> ModelState:
        match action:
            case ApplyRelayLog():
                member = member._replace(log=member.log | member.relay, relay=0)
            case Promote() if member.relay:
                return current  # the agent refuses
            case SetSource():
                member = self.with_source(member, self.names.index(action.source))
            case _:
                pass
        return super().act(current, number, member, action)

    def with_source(self, member: Member, source: int) -> Member:
        """Return a member that is about to get a source."""
        if member.role is Role.REPLICA and member.source == source:
            return member
        return self.restarted(member)


class SourcesThatDiscardTheRelayLog(RelayLogs):
    """Each `SetSource` discards the relay log, and the member still counts as complete."""

    def with_source(self, member: Member, source: int) -> Member:
        return member._replace(relay=0)


def resized(model: Model, before: int, wanted: int) -> Found:
    def done(current: ModelState) -> bool:
        return len(current.state.quorum.members) == wanted and not current.state.changing

    return search(model, start(len(model.names), 1, quorum=before), most=400_000, goal=done)


@pytest.mark.parametrize(("members", "before", "wanted"), CHANGES)
def test_a_change_of_size_discards_no_acknowledged_transaction(members, before, wanted):
    found = resized(
        RelayLogs(members, Limits(writes=1, faults=1, missing=0, versions=7), wanted=wanted), before, wanted
    )
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


def test_a_failover_discards_no_acknowledged_transaction():
    model = RelayLogs(3, Limits(writes=1, faults=2, missing=0, versions=8))

    def failed_over(current: ModelState) -> bool:
        return current.state.primary != "db-0" and current.state.transition is None

    found = search(model, start(3, 1), most=400_000, goal=failed_over)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.reached > 0


def test_a_source_that_discards_the_relay_log_of_a_complete_member_is_found():
    limits = Limits(writes=1, faults=1, missing=0, versions=7)
    found = resized(SourcesThatDiscardTheRelayLog(3, limits, wanted=3), 2, 3)
    assert "lacks acknowledged transactions" in found.violation


def label(current: ModelState, index: int) -> str:
    member = current.members[index]
    connected = member.source != NO_SOURCE and current.members[member.source].answers
    return role_of(current.state, observed(f"db-{index}", member, connected))


@pytest.mark.parametrize(("members", "before", "wanted"), [*CHANGES, pytest.param(3, 1, 3, id="from 1 to 3")])
def test_the_label_of_the_primary_stays_while_the_quorum_changes(members, before, wanted):
    """A Service that selects by the label would have no endpoint between two labels."""
    without: list[ModelState] = []

    def changes(current: ModelState) -> bool:
        if label(current, 0) != "primary":
            without.append(current)
        return current.state.changing

    model = Model(members, Limits(writes=0, faults=0, missing=0, versions=12), wanted=wanted)
    found = search(model, start(members, 1, quorum=before), most=100_000, goal=changes)
    assert found.complete
    assert found.reached > 0
    assert without == []


def test_no_member_has_the_label_of_the_primary_after_another_one_was_promoted():
    late: list[ModelState] = []

    def two(current: ModelState) -> bool:
        labelled = [index for index in range(3) if label(current, index) == "primary"]
        if any(current.members[index].promoted < current.promoted for index in labelled) or len(labelled) > 1:
            late.append(current)
        return current.state.primary != "db-0"

    model = Model(3, Limits(writes=0, faults=2, missing=0, versions=10))
    found = search(model, start(3, 1), most=200_000, goal=two)
    assert found.complete
    assert found.reached > 0
    assert late == []
