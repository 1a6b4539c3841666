"""GTID sets: both notations, set operations compared with Python's sets, and limits of the parser."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysqlcluster.gtid import MAX_INTERVALS, Comparison, GtidError, GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

NUMBERS = st.dictionaries(st.sampled_from([A, B, f"{A}:blue"]), st.sets(st.integers(1, 40)))


def gtids(numbers: dict[str, set[int]]) -> GtidSet:
    return GtidSet({origin: [(n, n) for n in of] for origin, of in numbers.items()})


def pairs(numbers: dict[str, set[int]]) -> set[tuple[str, int]]:
    return {(origin, n) for origin, of in numbers.items() for n in of}


@given(NUMBERS, NUMBERS)
def test_the_algebra_is_that_of_sets(left: dict[str, set[int]], right: dict[str, set[int]]):
    a, b = gtids(left), gtids(right)
    everything, rest = pairs(left) | pairs(right), pairs(left) - pairs(right)
    assert a.union(b).count == len(everything)
    assert a.subtract(b).count == len(rest)
    assert a.contains(b) == (pairs(left) >= pairs(right))
    assert a.subtract(b).union(b) == a.union(b)
    assert (a.compare(b) is Comparison.EQUAL) == (a == b) == (pairs(left) == pairs(right))


@given(NUMBERS)
def test_a_printed_set_is_read_back(numbers: dict[str, set[int]]):
    assert GtidSet.parse(str(gtids(numbers))) == gtids(numbers)


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(1, 5)), st.integers(1, 2**63)))
def test_a_state_of_mariadb_is_read_back(state: dict[tuple[int, int], int]):
    text = ",".join(f"{domain}-{server}-{number}" for (domain, server), number in state.items())
    parsed = GtidSet.parse(text)
    assert GtidSet.parse(str(parsed)) == parsed
    assert all(parsed.last(f"{domain}-{server}") == number for (domain, server), number in state.items())


def test_a_transaction_that_only_the_old_primary_has_makes_the_members_incomparable():
    old, new = GtidSet.parse("0-1-101"), GtidSet.parse("0-1-100,0-2-101")
    assert old.compare(new) is Comparison.INCOMPARABLE
    assert str(old.subtract(new)) == "0-1-101"


def test_a_member_that_lags_is_a_subset():
    assert GtidSet.parse("0-1-90").compare(GtidSet.parse("0-1-100,0-2-105")) is Comparison.SUBSET
    assert GtidSet.parse(f"{A}:1-9").compare(GtidSet.parse(f"{A}:1-10")) is Comparison.SUBSET


def test_a_position_of_mariadb_names_the_last_transaction_of_each_domain():
    assert GtidSet.parse("0-1-100,0-2-105,7-3-1").position() == "0-2-105,7-3-1"
    with pytest.raises(GtidError, match="has no position"):
        GtidSet.parse(f"{A}:1").position()


def test_the_notation_of_mysql_with_tags_and_white_space_is_read():
    parsed = GtidSet.parse(f"{A.upper()}:1-3:5:blue:1-2,\n {B}:7")
    assert parsed.origins == (A, f"{A}:blue", B)
    assert parsed.count == 7


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "0-1",
        "0-1-0",
        "0-1-2-3",
        "0--1",
        f"{A}:0",
        f"{A}:3-2",
        f"{A}:1-",
        f"{A[:-1]}:1",
        f"{A}:1,0-1-2",
        "0-1-9" * 9,
    ],
)
def test_another_text_is_an_error_of_one_type(text: str):
    with pytest.raises(GtidError):
        GtidSet.parse(text)


@given(st.text(alphabet="0123456789-:,abcdef \n", max_size=80))
def test_any_text_is_a_set_or_that_error(text: str):
    with contextlib.suppress(GtidError):
        assert GtidSet.parse(str(GtidSet.parse(text))) == GtidSet.parse(text)


def test_a_text_with_too_many_intervals_is_refused():
    text = f"{A}:" + ":".join(str(n) for n in range(1, 2 * MAX_INTERVALS + 3, 2))
    with pytest.raises(GtidError):
        GtidSet.parse(text)
