"""The checker of histories detects lost, disordered and repeated messages."""

from tests.history import check


def test_a_history_without_faults_is_sound():
    assert check({"a": [1, 2]}, {"a": [1, 2]}).sound


def test_an_acknowledged_message_that_is_not_consumed_is_lost():
    assert check({"a": [1, 2], "b": [1]}, {"a": [1]}).lost == (("a", 2), ("b", 1))


def test_a_message_that_was_not_acknowledged_may_be_missing_or_there():
    assert check({"a": [1]}, {"a": [1, 2]}).sound


def test_a_number_that_comes_again_is_a_duplicate_and_no_disorder():
    report = check({"a": [1, 2]}, {"a": [1, 2, 1]})
    assert report.sound
    assert report.duplicates == 1


def test_a_number_that_comes_first_after_a_larger_one_is_disorder():
    assert check({"a": [1, 2, 3]}, {"a": [1, 3, 2]}).disordered == (("a", 2),)
