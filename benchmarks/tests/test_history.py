"""Earlier results: what replaces them, what they are compared with, and what is never mixed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import history
from benchmarks.harness import BenchmarkError
from benchmarks.rows import OURS, THEIRS, Bar, Numbers, Row, Size
from benchmarks.verdicts import Results, by_round, run_ratios

MACHINE = {"CPU": "one", "memory": "1 GB", "system": "Linux", "Python": "3", THEIRS: "v1"}


def measured_nowhere(*_: object) -> Numbers:
    raise AssertionError("history measures nothing")


SYNC = Row("sync", "", measured_nowhere, Size(), Size(), bars=(Bar("cpu_us", 0.2),))
IDLE = Row("idle", "", measured_nowhere, Size(), Size())
ROWS = (SYNC, IDLE)


def results(machine: dict[str, str] = MACHINE, **rows: dict[str, list[float]]) -> Results:
    return {
        "machine": machine,
        "quick": False,
        "runs": 2,
        "rows": {
            row: {peer: [{"cpu_us": n} for n in numbers] for peer, numbers in peers.items()}
            for row, peers in rows.items()
        },
        "failed": {},
    }


def test_a_row_measured_now_replaces_the_earlier_one_and_leaves_the_others() -> None:
    before, now = results(sync={OURS: [1.0]}, idle={OURS: [5.0]}), results(sync={OURS: [2.0]})
    merged, notes = history.merge(before, now, ROWS)
    assert merged["rows"] == {"sync": {OURS: [{"cpu_us": 2.0}]}, "idle": {OURS: [{"cpu_us": 5.0}]}}
    assert notes == []


def test_results_are_pooled_round_by_round() -> None:
    """A round that only one side was in pairs with nothing, before and after."""
    first = results(sync={OURS: [1.0, 3.0], THEIRS: [10.0]}, idle={OURS: [5.0]})
    second = results(sync={OURS: [2.0], THEIRS: [20.0]})
    pooled = history.pool(first, second)
    assert pooled["rows"]["idle"] == first["rows"]["idle"]
    assert by_round(pooled, "sync", OURS, "cpu_us") == {0: 1.0, 1: 3.0, 2: 2.0}
    assert by_round(pooled, "sync", THEIRS, "cpu_us") == {0: 10.0, 2: 20.0}
    assert run_ratios(pooled, "sync", "cpu_us", OURS, THEIRS) == [0.1, 0.1]
    assert history.taken(pooled, "sync")["runs"] == 3


def test_results_of_two_machines_or_sizes_are_not_pooled() -> None:
    small = results(sync={OURS: [1.0]})
    small["quick"] = True
    for other in (small, results({**MACHINE, "CPU": "another"}, sync={OURS: [1.0]})):
        with pytest.raises(BenchmarkError, match="only results of one machine"):
            history.pool(results(sync={OURS: [1.0]}), other)


def test_each_row_remembers_the_machine_it_was_measured_on() -> None:
    other = {**MACHINE, "CPU": "another"}
    merged, _ = history.merge(results(idle={OURS: [5.0, 6.0]}), results(other, sync={OURS: [2.0]}), ROWS)
    assert history.taken(merged, "idle") == {"machine": MACHINE, "runs": 2}
    assert history.taken(merged, "sync") == {"machine": other, "runs": 1}


def test_an_interrupted_row_does_not_replace_a_fuller_one() -> None:
    before, now = results(sync={OURS: [1.0], THEIRS: [9.0]}), results(sync={OURS: [2.0]})
    merged, notes = history.merge(before, now, ROWS, finished=False)
    assert merged["rows"]["sync"] == before["rows"]["sync"]
    assert notes == ["sync: earlier numbers kept, since controller-runtime was not measured now"]


def test_a_row_that_failed_now_does_not_live_on_its_past() -> None:
    now: Results = {**results(), "failed": {"sync": {OURS: "lost events"}}}
    merged, _ = history.merge(results(sync={OURS: [1.0]}), now, ROWS)
    assert "sync" not in merged["rows"]
    assert merged["failed"] == {"sync": {OURS: "lost events"}}


def test_rows_that_no_longer_exist_are_dropped_and_named() -> None:
    merged, notes = history.merge(results(gone={OURS: [1.0]}), results(sync={OURS: [2.0]}), ROWS)
    assert list(merged["rows"]) == ["sync"]
    assert notes == ["gone: no longer a row, dropped"]


def test_small_sizes_and_full_ones_are_never_mixed() -> None:
    quick: Results = {**results(sync={OURS: [1.0]}), "quick": True}
    with pytest.raises(BenchmarkError, match="never mixed"):
        history.merge(results(), quick, ROWS)
    assert history.compare(results(sync={OURS: [9.0]}), quick, ROWS) == []


def test_a_ratio_that_rose_beyond_its_spread_is_a_regression() -> None:
    before = results(sync={OURS: [10.0, 11.0], THEIRS: [100.0, 100.0]})
    now = results(sync={OURS: [20.0, 21.0], THEIRS: [100.0, 100.0]})
    (change,) = history.compare(before, now, ROWS)
    assert str(change) == (
        "slower than last time: sync, CPU 0.11 (0.10 to 0.11) → 0.21 (0.20 to 0.21) of controller-runtime's"
    )
    (back,) = history.compare(now, before, ROWS)
    assert str(back).startswith("faster than last time")


def test_a_slower_machine_is_no_regression() -> None:
    before = results(sync={OURS: [10.0, 11.0], THEIRS: [100.0, 110.0]}, idle={OURS: [1.0, 1.0]})
    other = {**MACHINE, "CPU": "another"}
    now = results(other, sync={OURS: [20.0, 22.0], THEIRS: [200.0, 220.0]}, idle={OURS: [2.0, 2.0]})
    assert history.compare(before, now, ROWS) == []


def test_a_number_without_a_peer_is_compared_on_the_same_machine() -> None:
    (change,) = history.compare(results(idle={OURS: [1.0, 1.0]}), results(idle={OURS: [2.0, 2.0]}), ROWS)
    assert str(change) == "slower than last time: idle, CPU 1.00 µs (1.00 µs to 1.00 µs) → 2.00 µs (2.00 µs to 2.00 µs)"


def test_another_version_of_the_peer_is_said_with_the_change() -> None:
    before = results(sync={OURS: [10.0, 10.0], THEIRS: [100.0, 100.0]})
    now = results({**MACHINE, THEIRS: "v2"}, sync={OURS: [10.0, 10.0], THEIRS: [50.0, 50.0]})
    (change,) = history.compare(before, now, ROWS)
    assert "[controller-runtime v1 → v2]" in str(change)


def test_overlapping_spreads_are_no_news() -> None:
    before, now = results(idle={OURS: [1.0, 2.0]}), results(idle={OURS: [1.9, 4.0]})
    assert history.compare(before, now, ROWS) == []


def test_single_runs_have_to_differ_by_more() -> None:
    assert history.compare(results(idle={OURS: [1.0]}), results(idle={OURS: [1.1]}), ROWS) == []
    assert history.compare(results(idle={OURS: [1.0]}), results(idle={OURS: [1.5]}), ROWS)


RUNS = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=4)


@given(before=RUNS, now=RUNS)
def test_a_change_reported_one_way_is_reported_the_other_way_too(before: list[float], now: list[float]) -> None:
    there = history.compare(results(idle={OURS: before}), results(idle={OURS: now}), ROWS)
    assert all(change.better == (change.now < change.before) for change in there)
    assert history.compare(results(idle={OURS: now}), results(idle={OURS: now}), ROWS) == []


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path, kept = tmp_path / "results.json", results(sync={OURS: [1.0]})
    assert history.load(path) is None
    history.save(path, kept)
    assert history.load(path) == kept


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"rows": {}})])
def test_a_file_that_is_not_ours_is_refused_clearly(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(BenchmarkError, match=r"results\.json: not"):
        history.load(path)
