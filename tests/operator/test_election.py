"""The state machine of the election: the conclusions of a candidate from its reads."""

import pytest

from steersman.operator.leaderelection.state import (
    Acquire,
    Create,
    Election,
    LeaseRecord,
    LeaseTiming,
    Phase,
    Renew,
    Wait,
)

A = LeaseRecord(holder="a", duration=15, renewed="1", version="1")


def test_no_lease_is_created_at_once():
    assert Election("b").saw(None, 100).next_action(100) == Create()


def test_a_held_lease_is_left_alone_for_its_duration_after_it_was_first_seen():
    """L1: expiry is judged by the local clock from the locally observed change, not by the record's times."""
    seen = Election("b").saw(A, 100)
    assert seen.next_action(114.9) == Wait(115)
    assert seen.saw(A, 115).next_action(115) == Acquire(A)


def test_every_renewal_that_is_seen_starts_the_patience_anew():
    later = Election("b").saw(A, 100).saw(LeaseRecord(holder="a", duration=15, renewed="2", version="2"), 110)
    assert later.next_action(124) == Wait(125)


def test_a_renewal_that_changes_nothing_but_the_version_counts_all_the_same():
    """L1: a holder whose wall clock stands still writes the same words again; it is alive nevertheless."""
    renewed = LeaseRecord(holder="a", duration=15, renewed="1", version="7")
    seen = Election("b").saw(A, 100).saw(renewed, 114)
    assert seen.next_action(115) == Wait(129)


def test_a_released_lease_is_taken_at_once():
    free = LeaseRecord(holder="", duration=1, renewed="2", version="2")
    assert Election("b").saw(A, 100).saw(free, 101).next_action(101) == Acquire(free)


def test_the_records_own_duration_is_what_a_candidate_waits():
    seen = Election("b").saw(LeaseRecord(holder="a", duration=60, version="1"), 0)
    assert seen.next_action(59) == Wait(60)


def test_a_deleted_lease_of_a_live_holder_is_not_taken_before_it_expires():
    seen = Election("b").saw(A, 100).saw(None, 103)
    assert seen.next_action(103, exists=False) == Wait(115)
    assert seen.saw(None, 115).next_action(115, exists=False) == Create()


def test_a_leader_stops_writing_at_the_renew_deadline_though_the_lease_lasts_longer():
    """L2: between the last write of the old leader and the first of the new one lies a safety margin."""
    leader = Election("a").wrote(A, 100)
    assert leader.next_action(102) == Renew(A)
    assert leader.may_write(109.9)
    assert not leader.may_write(110)
    assert leader.remaining(104) == 11
    assert leader.remaining(110) == 0


PREFIX = "op-1_0d2f_"


def test_the_lease_of_an_ended_process_of_the_same_pod_is_taken_at_once():
    """L1: a restarted container does not wait for the lease of the process before it."""
    before = LeaseRecord(holder=PREFIX + "aa", duration=15, renewed="1", version="1")
    after = Election(PREFIX + "bb", ended_prefix=PREFIX).saw(before, 100)
    assert after.next_action(100) == Acquire(before)
    assert after.saw(None, 101).next_action(101, exists=False) == Create()


@pytest.mark.parametrize("holder", ["op-1_0d2f", "op-1_0d2f0_aa", "op-2_0d2f_aa", "op-1_aa", "a"])
def test_the_lease_of_another_pod_is_waited_for_by_a_restarted_container_too(holder):
    other = LeaseRecord(holder=holder, duration=15, renewed="1", version="1")
    assert Election(PREFIX + "bb", ended_prefix=PREFIX).saw(other, 100).next_action(100) == Wait(115)


def test_a_candidate_that_knows_of_no_ended_process_waits_for_its_pods_lease():
    before = LeaseRecord(holder=PREFIX + "aa", duration=15, renewed="1", version="1")
    assert Election(PREFIX + "bb").saw(before, 100).next_action(100) == Wait(115)


@pytest.mark.parametrize("record", [None, LeaseRecord(holder="b", version="2"), LeaseRecord(holder="", version="2")])
def test_a_leader_that_sees_the_lease_gone_has_lost_it(record):
    lost = Election("a").wrote(A, 100).saw(record, 101)
    assert lost.phase is Phase.LOST
    assert lost.why
    assert not lost.may_write(101)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ((0.5, 0.2, 0.1), "whole seconds"),
        ((10, 10, 2), "shorter than the lease duration"),
        ((15, 10, 0), "retry period"),
        ((15, 10, 9), "fit into the renew deadline"),
    ],
)
def test_terms_under_which_two_could_lead_are_refused(timing, words):
    with pytest.raises(ValueError, match=words):
        LeaseTiming(*timing)
