"""The phases of a TopicTransfer: transfer, undo, and the conditions that delay them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from steersman import ObjectMeta, replace

from rocketmq.api.v1.topictransfer_types import TopicTransfer, TopicTransferSpec, TopicTransferStatus
from rocketmq.transfers import Drain, Outcome, advance, is_finished, phase_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AFTER_60_SECONDS = NOW + timedelta(seconds=60)


def transfer(phase="", *, status=None, **spec):
    fields = {"topic": "orders", "source_cluster": "green", "target_cluster": "blue"} | spec
    return TopicTransfer(
        metadata=ObjectMeta(name="move"),
        spec=TopicTransferSpec(**fields),
        status=status or TopicTransferStatus(phase=phase),
    )


def complete(status):
    (condition,) = status.conditions
    return condition.status, condition.reason, condition.message


def walk(of, results):
    """Return the performed phases, in order."""
    phases, now = [], NOW
    while not is_finished(of) and len(phases) < 30:
        phase = phase_of(of)
        if not phases or phases[-1] != phase:
            phases.append(phase)
        of = replace(of, status=advance(of, phase, results.get(phase, Outcome()), now))
        now += timedelta(seconds=25)
    return phases, of


def test_a_transfer_keeps_its_source_unless_the_user_wants_it_deleted():
    drained = {"Drain": Outcome(drain=Drain(end=5, lag=0, readers=1))}
    phases, done = walk(transfer(), drained)
    assert phases == ["Prepare", "CopyGroups", "CreateTopic", "StopWrite", "Drain"]
    assert complete(done.status) == ("True", "Moved", "")
    phases, _ = walk(transfer(delete_source=True), drained)
    assert phases[-1] == "DeleteSource"


@pytest.mark.parametrize("phase", ["Prepare", "CopyGroups", "CreateTopic", "StopWrite", "DeleteSource", "Undo"])
def test_a_phase_whose_work_fails_stays(phase):
    after = advance(transfer(phase), phase, Outcome("no answer"), NOW)
    assert after.phase == phase
    assert complete(after) == ("False", phase, "no answer")


@pytest.mark.parametrize("phase", ["", "Prepare", "CopyGroups", "CreateTopic"])
def test_a_transfer_is_undone_until_writing_stops(phase):
    assert phase_of(transfer(phase, undo=True)) == "Undo"


@pytest.mark.parametrize("phase", ["StopWrite", "Drain", "DeleteSource"])
def test_a_transfer_is_not_undone_after_that(phase):
    assert phase_of(transfer(phase, undo=True)) == phase


def test_an_undone_transfer_says_so():
    _, done = walk(transfer("CreateTopic", undo=True), {})
    assert complete(done.status) == ("True", "Undone", "")


def drained(**changes):
    before = TopicTransferStatus(phase="Drain", end=5, unchanged_since=NOW)
    drain = Drain(**({"end": 5, "lag": 0, "readers": 1} | changes))
    return advance(transfer(status=before, delete_source=True), "Drain", Outcome(drain=drain), AFTER_60_SECONDS)


def test_a_drained_topic_goes_on():
    assert drained().phase == "DeleteSource"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lag": 2}, "consumers have not read 2 messages"),
        ({"end": 6}, "waiting until no message has come"),
        ({"readers": 0}, "no consumer group has read the topic, whose 5 messages would be deleted"),
    ],
)
def test_a_topic_with_messages_is_not_deleted(changes, says):
    after = drained(**changes)
    assert after.phase == "Drain"
    assert says in complete(after)[2]


def test_the_time_without_messages_starts_anew_with_each_message():
    assert drained(end=6).unchanged_since == AFTER_60_SECONDS
    assert drained(lag=1).unchanged_since == NOW


def test_the_permission_of_the_source_is_kept_from_the_first_phase():
    first = advance(transfer(), "Prepare", Outcome(permission=6), NOW)
    later = advance(transfer(status=first), "CopyGroups", Outcome(permission=4), NOW)
    assert later.permission == 6


def test_a_topic_that_the_transfer_creates_is_known_before_it_exists():
    first = advance(transfer(), "Prepare", Outcome(permission=6, created=True), NOW)
    assert advance(transfer(status=first), "CreateTopic", Outcome("no answer"), NOW).created


def test_transfers_at_the_same_time_keep_their_states_apart():
    def drained_twice(topic, end):
        of = transfer("Drain", topic=topic)
        for now in (NOW, AFTER_60_SECONDS):
            yield (of := replace(of, status=advance(of, "Drain", Outcome(drain=Drain(end=end, lag=0, readers=1)), now)))

    alone = [list(drained_twice("orders", 5)), list(drained_twice("bills", 9))]
    together = zip(*zip(drained_twice("orders", 5), drained_twice("bills", 9), strict=True), strict=True)
    assert [list(each) for each in together] == alone
    assert [each[0].status.end for each in alone] == [5, 9]
