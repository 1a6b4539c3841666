"""The comparison itself: it accepts the differences that must be, and no others."""

import pytest

from .harness import Answer, Server, compare


def test_times_uids_and_versions_do_not_matter():
    one = Answer(200, {"metadata": {"uid": "0a0a0a0a-0000-0000-0000-000000000001", "resourceVersion": "7"}})
    other = Answer(200, {"metadata": {"uid": "0a0a0a0a-0000-0000-0000-000000000002", "resourceVersion": "9"}})
    compare("GET", one, other)


def test_a_generated_name_counts_as_far_as_it_was_asked_for():
    one = Answer(201, {"metadata": {"generateName": "a-", "name": "a-x1"}})
    compare("POST", one, Answer(201, {"metadata": {"generateName": "a-", "name": "a-x2"}}))
    with pytest.raises(AssertionError, match="name"):
        compare("POST", one, Answer(201, {"metadata": {"generateName": "a-", "name": "b-x2"}}))


def managed(*owners: tuple[str, str]) -> Answer:
    entries = [
        {"manager": owner, "operation": "Apply", "time": f"2026-01-01T00:00:0{second}Z"} for owner, second in owners
    ]
    return Answer(200, {"metadata": {"managedFields": entries}})


def test_a_second_that_begins_between_two_writes_does_not_matter_but_the_order_does():
    one = managed(("a", "1"), ("b", "1"))
    compare("PATCH", one, managed(("b", "1"), ("a", "2")))
    for other in (managed(("b", "1"), ("a", "1")), managed(("a", "2"), ("b", "1")), managed(("a", "1"), ("c", "1"))):
        with pytest.raises(AssertionError, match="managedFields"):
            compare("PATCH", one, other)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (Answer(200, {}), Answer(201, {}), "code"),
        (Answer(200, {"a": 1}), Answer(200, {"a": "1"}), ".a"),
        (Answer(200, {"a": True}), Answer(200, {"a": 1}), ".a"),
        (Answer(200, {"a": [1]}), Answer(200, {"a": []}), ".a"),
        (Answer(200, {"a": None}), Answer(200, {}), "missing in real"),
        (Answer(200, {}, ("299 - x",)), Answer(200, {}), "warnings"),
    ],
)
def test_every_other_difference_is_told(one: Answer, other: Answer, found: str):
    with pytest.raises(AssertionError, match=found):
        compare("GET", one, other)


def test_what_a_case_ignores_is_ignored_at_any_depth():
    one = Answer(200, {"items": [{"metadata": {"a": 1}}, {"metadata": {"a": 2}}]})
    other = Answer(200, {"items": [{"metadata": {}}, {"metadata": {"a": 3}}]})
    compare("GET", one, other, ["items.metadata.a"])


async def test_the_real_server_answers(real: Server):
    answer = await real.ask("GET", "/version")
    assert answer.code == 200
    assert answer["major"] == "1"
