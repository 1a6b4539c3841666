"""More is measured where a call is close, and never because of which way it goes."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.doubt import MAX_RUNS, Doubt, doubts, next_round
from benchmarks.rows import OURS, THEIRS, Bar, Numbers, Row, Size
from benchmarks.verdicts import Results


def measured_nowhere(*_: object) -> Numbers:
    raise AssertionError("a choice measures nothing")


def row(name: str = "x", limit: float = 1.0, *, against: str = THEIRS) -> Row:
    return Row(name, "", measured_nowhere, Size(), Size(), bars=(Bar("cpu_us", limit, against),))


def results(**ours: list[float]) -> Results:
    """Return results with the ratios of the rounds of each row."""
    rows = {
        name: {OURS: [{"cpu_us": n} for n in ratios], THEIRS: [{"cpu_us": 1.0} for _ in ratios]}
        for name, ratios in ours.items()
    }
    return {"machine": {}, "quick": False, "runs": 1, "rows": rows, "failed": {}}


def found(*ratios: float, limit: float = 1.0) -> list[Doubt]:
    return doubts(results(x=list(ratios)), [row(limit=limit)])


@pytest.mark.parametrize("ratios", [(0.7, 1.4), (0.5, 0.95), (1.05, 2.0), (0.99, 0.99)])
def test_rounds_on_both_sides_of_a_bar_or_near_it_leave_a_doubt(ratios: tuple[float, ...]) -> None:
    (doubt,) = found(*ratios)
    assert [(group.row.name, group.run, group.peers) for group in doubt.groups] == [("x", 2, (OURS, THEIRS))]


@pytest.mark.parametrize("ratios", [(0.5, 0.7), (1.4, 2.0), (1.2,) * 9])
def test_rounds_far_from_a_bar_leave_none(ratios: tuple[float, ...]) -> None:
    assert found(*ratios) == []


def test_few_rounds_are_far_from_a_bar_only_when_they_are_further() -> None:
    assert found(1.2, 1.2)


def test_enough_rounds_leave_none() -> None:
    assert found(*[1.0] * (MAX_RUNS - 1))
    assert found(*[1.0] * MAX_RUNS) == []


def test_a_single_round_has_no_spread_to_be_sure_by() -> None:
    (doubt,) = found(0.1)
    assert doubt.rounds == 1


def test_less_than_nothing_is_the_first_to_be_measured_again() -> None:
    (doubt,) = found(-1.0, -2.0, 0.5)
    assert doubt.closeness == 0


def test_who_was_not_measured_leaves_no_doubt() -> None:
    nothing = results(x=[])
    assert doubts(nothing, [row()]) == []
    assert doubts({**nothing, "rows": {}}, [row()]) == []


def test_a_bar_without_a_peer_measures_ours_alone() -> None:
    (doubt,) = doubts(results(x=[0.9, 1.1]), [row(against="")])
    assert [group.peers for group in doubt.groups] == [(OURS,)]


def test_a_round_of_an_exponent_measures_ours_at_every_size() -> None:
    names = ("a", "b", "c")
    bar = Bar("total_cpu_ms", 1.05, "", over=names)
    rows = [
        Row(name, "", measured_nowhere, Size(), Size(), bars=(bar,) if name == "c" else (), family="f", x=10.0**power)
        for power, name in enumerate(names)
    ]
    outcome = results()
    for power, name in enumerate(names):
        outcome["rows"][name] = {OURS: [{"total_cpu_ms": 10.0 ** (slope * power)} for slope in (1.0, 1.1)]}
    outcome["rows"]["b"][OURS].append({"total_cpu_ms": 11.0})
    (doubt,) = doubts(outcome, rows)
    assert [(group.row.name, group.run, group.peers) for group in doubt.groups] == [(n, 3, (OURS,)) for n in names]
    assert doubt.rounds == 2
    assert doubt.verdict.each == pytest.approx((1.0, 1.1))


def test_the_closest_call_comes_first_and_one_that_does_not_fit_not_at_all() -> None:
    far, close = row("far"), row("close")
    choice = doubts(results(far=[0.8, 1.1], close=[0.95, 1.06]), [far, close])
    assert len(choice) == 2
    chosen = next_round(choice, lambda _: 10.0, 10)
    assert chosen is not None
    assert chosen.verdict.row is close
    longer = {"far": 10.0, "close": 20.0}
    chosen = next_round(choice, lambda doubt: longer[doubt.verdict.row.name], 19)
    assert chosen is not None
    assert chosen.verdict.row is far
    assert next_round(choice, lambda _: 10.0, 9.9) is None


def test_a_call_that_no_round_makes_clear_leaves_time_to_others() -> None:
    rows = {"edge": row("edge"), "other": row("other")}
    ratios = {"edge": [0.95, 1.05], "other": [0.8, 1.05]}
    for _ in range(12):
        chosen = next_round(doubts(results(**ratios), list(rows.values())), lambda _: 1.0, 10)
        assert chosen is not None
        name = chosen.verdict.row.name
        ratios[name].append((ratios[name][0], ratios[name][1])[len(ratios[name]) % 2])
    assert len(ratios["edge"]) > len(ratios["other"]) > 2


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=MAX_RUNS), st.floats(0.05, 20))
def test_a_bar_that_holds_and_one_missed_by_as_much_are_the_same(ratios: list[float], limit: float) -> None:
    mirrored = [limit * limit / ratio for ratio in ratios]
    assert math.isclose(statistics.median(ratios) / limit, limit / statistics.median(mirrored)) or len(ratios) % 2 == 0
    there, back = found(*ratios, limit=limit), found(*mirrored, limit=limit)
    if len(ratios) % 2 and all(abs(abs(math.log(ratio / limit)) - 0.1) > 1e-9 for ratio in ratios):
        assert [one.closeness for one in there] == pytest.approx([one.closeness for one in back])
