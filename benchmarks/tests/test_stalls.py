"""Stalls of the host are separate from the time of a peer, and decide no verdict."""

import os
from collections.abc import Sequence

import pytest

from benchmarks.doubt import MAX_RUNS, doubts
from benchmarks.harness import cores
from benchmarks.metrics import STALLED
from benchmarks.report import bars_table, row_lines
from benchmarks.rows import OURS, THEIRS, Bar, Numbers, Row, Size
from benchmarks.stalls import probe, stalled
from benchmarks.verdicts import Results, ratios, summarise, values


def measured_nowhere(*_: object) -> Numbers:
    raise AssertionError("a verdict measures nothing")


ROW = Row("x", "", measured_nowhere, Size(), Size(), bars=(Bar("p99_ms", 1.0),))


def results(*rounds: tuple[float, float, float, float]) -> Results:
    """Return results from our p99 and stalls, and theirs, of each round."""
    ours = [{"p99_ms": p99, STALLED: part} for p99, part, _, _ in rounds]
    theirs = [{"p99_ms": p99, STALLED: part} for _, _, p99, part in rounds]
    return {"machine": {}, "quick": False, "runs": 1, "rows": {"x": {OURS: ours, THEIRS: theirs}}, "failed": {}}


@pytest.mark.parametrize(
    ("stalls", "percent"),
    [
        ([[]], 0),
        ([[(1.0, 1.5)]], 5),
        ([[(1.0, 1.5)], [(1.25, 1.75)]], 10),
        ([[(-1.0, 0.5), (9.5, 11.0), (12.0, 13.0)]], 10),
    ],
)
def test_what_cores_missed_of_a_window_is_a_part_of_it(
    stalls: Sequence[Sequence[tuple[float, float]]], percent: float
) -> None:
    assert stalled(stalls, [(0.0, 10.0)]) == pytest.approx(percent)


def test_what_was_missed_between_windows_is_nothing() -> None:
    assert stalled([[(1.5, 2.5)]], [(0.0, 1.0), (3.0, 4.0)]) == 0


def test_a_probe_knows_what_it_was_there_for_and_leaves_no_process() -> None:
    with probe(set.union(*cores())) as watching:
        watching.sleep(0.05)
        part = watching.stalled()
        processes = watching.processes
    assert all(process.returncode is not None for process in processes)
    allowed = os.geteuid() == 0
    assert (part is not None and part >= 0) if allowed else True


def test_a_probe_that_may_not_go_first_knows_nothing() -> None:
    with probe([1 << 10]) as watching:  # no such core
        watching.sleep(0.01)
        assert watching.stalled() is None


def test_a_stalled_round_counts_for_neither_side_and_is_told_of() -> None:
    kept = results((0.5, 0.0, 1.0, 0.1), (0.5, 0.0, 40.0, 0.9), (70.0, 2.0, 1.0, 0.0), (0.7, 0.5, 1.0, 0.5))
    (verdict,) = summarise(kept, [ROW])
    assert verdict.ratio == pytest.approx(0.6)
    assert verdict.each == pytest.approx((0.5, 0.7))
    assert verdict.stalled == 2
    assert "| 2 of 4 |" in bars_table([verdict])[-1]
    (ratio,) = ratios(kept, [ROW])
    assert ratio.theirs == (1.0, 1.0, 1.0)
    assert values(kept, "x", OURS, "p99_ms") == [0.5, 0.5, 0.7]


def test_where_every_round_was_stalled_nothing_is_judged() -> None:
    kept = results((0.5, 1.0, 1.0, 0.0), (0.5, 0.0, 40.0, 0.9))
    (verdict,) = summarise(kept, [ROW])
    assert verdict.holds is None
    assert "stalled by the host in every round" in bars_table([verdict])[-1]
    assert "stalled by the host in every round" in row_lines(kept, [ROW], [ROW])[-1]
    (doubt,) = doubts(kept, [ROW])
    assert doubt.rounds == 2
    assert doubt.wanted == MAX_RUNS


def test_a_run_without_a_probe_counts() -> None:
    kept = results((0.5, 0.0, 1.0, 0.0))
    for runs in kept["rows"]["x"].values():
        del runs[0][STALLED]
    (verdict,) = summarise(kept, [ROW])
    assert (verdict.ratio, verdict.stalled) == (0.5, 0)


def test_rounds_that_do_not_count_are_made_up_for_within_twice_as_many() -> None:
    steady, stalled = (0.99, 0.0, 1.0, 0.0), (0.99, 5.0, 1.0, 0.0)
    (doubt,) = doubts(results(*[steady] * 4, *[stalled] * 9), [ROW])
    assert (doubt.rounds, doubt.wanted) == (13, MAX_RUNS - 4)
    (doubt,) = doubts(results(*[steady] * 4, *[stalled] * 17), [ROW])
    assert doubt.wanted == 1
    assert doubts(results(*[steady] * 4, *[stalled] * 18), [ROW]) == []
    assert doubts(results(*[steady] * MAX_RUNS, *[stalled] * 3), [ROW]) == []
