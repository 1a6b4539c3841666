from datetime import UTC, datetime, timedelta

import pytest

from steersman.models import (
    Condition,
    Conditions,
    get_condition,
    is_true,
    merge_conditions,
    ready_when,
    remove_condition,
    set_condition,
)

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(minutes=5, microseconds=7)
SECOND = NOW.replace(microsecond=0)


def condition(type: str = "Ready", status: str = "True", when: datetime | None = THEN) -> Condition:
    return Condition(type=type, status=status, reason="R", message="m", last_transition_time=when)


def test_the_transition_time_is_kept_while_the_status_is_the_same():
    """A2: conditions keep their transition time."""
    merged = merge_conditions((condition(),), ready_when(True, reason="Other"), NOW, 3)

    assert merged == (
        Condition(type="Ready", status="True", reason="Other", last_transition_time=THEN, observed_generation=3),
    )


def test_the_transition_time_moves_when_the_status_changes():
    (merged,) = merge_conditions((condition(),), ready_when(False), NOW, 3)

    assert (merged.status, merged.reason, merged.last_transition_time) == ("False", "NotReady", SECOND)


def test_a_new_condition_gets_the_present_time_in_whole_seconds():
    (merged,) = merge_conditions((), ready_when(None, message="no answer"), NOW)

    assert (merged.status, merged.reason, merged.last_transition_time) == ("Unknown", "Unknown", SECOND)
    assert merged.observed_generation is None


def test_merging_what_is_there_returns_the_same_tuple():
    """A2: a status that says the same is no change."""
    old = merge_conditions((), ready_when(True), NOW, 1)

    assert merge_conditions(old, ready_when(True), NOW + timedelta(hours=1), 1) is old


def test_conditions_of_others_stay_in_their_place():
    old: Conditions = (condition("Progressing"), condition("Ready"), condition("Degraded"))

    merged = merge_conditions(old, (*ready_when(False), condition("New", when=None)), NOW)

    assert [c.type for c in merged] == ["Progressing", "Ready", "Degraded", "New"]
    assert [c.type for c in merge_conditions(old, ready_when(True), NOW, keep_others=False)] == ["Ready"]


def test_an_explicit_time_and_generation_win():
    new = Condition(type="Ready", status="False", last_transition_time=THEN, observed_generation=9)

    assert merge_conditions((condition(),), (new,), NOW, 3) == (new,)


def test_setting_reading_and_removing_one_condition():
    conditions = set_condition((), "Ready", True, reason="Up", now=NOW, observed_generation=2)

    assert is_true(conditions, "Ready")
    assert not is_true(conditions, "Gone")
    assert get_condition(conditions, "Ready") == Condition(
        type="Ready", status="True", reason="Up", last_transition_time=SECOND, observed_generation=2
    )
    assert get_condition(conditions, "Gone") is None
    assert remove_condition(conditions, "Ready") == ()


def test_a_status_that_is_none_is_refused():
    with pytest.raises(ValueError, match="True, False or Unknown, not 'true'"):
        set_condition((), "Ready", "true", reason="Up", now=NOW)


def test_conditions_of_built_in_kinds_are_read_alike():
    from steersman.k8s.apps_v1 import DeploymentCondition

    assert is_true((DeploymentCondition(type="Available", status="True"),), "Available")
