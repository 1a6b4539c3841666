"""What the report says about results: verdicts by medians, and no bar that silently goes missing."""

from benchmarks.report import Results, render_table, summarise
from benchmarks.rows import OURS, THEIRS, Bar, Numbers, Row, Size


def measured_nowhere(*_: object) -> Numbers:
    raise AssertionError("a report measures nothing")


ROW = Row("sync", "A row", measured_nowhere, Size(), Size(), bars=(Bar("cpu_us", 0.2),))


def results(ours: list[float], theirs: list[float], failed: dict[str, str] | None = None) -> Results:
    return {
        "machine": {},
        "quick": False,
        "runs": len(ours),
        "rows": {"sync": {OURS: [{"cpu_us": n} for n in ours], THEIRS: [{"cpu_us": n} for n in theirs]}},
        "failed": {"sync": failed} if failed else {},
    }


def test_a_bar_is_judged_by_the_medians_not_by_the_best_run() -> None:
    (verdict,) = summarise(results([1.0, 30.0, 25.0], [100.0, 100.0, 100.0]), [ROW])
    assert verdict.ratio == 0.25
    assert verdict.spread == (0.01, 0.3)
    assert verdict.holds is False


def test_a_missed_bar_is_printed_as_missed() -> None:
    outcome = results([25.0], [100.0])
    assert "**missed**" in render_table(summarise(outcome, [ROW]), outcome)


def test_a_bar_without_numbers_neither_holds_nor_disappears() -> None:
    outcome = results([], [100.0], failed={OURS: "lost 3 events\nand more"})
    (verdict,) = summarise(outcome, [ROW])
    assert verdict.holds is None
    table = render_table([verdict], {**outcome, "rows": {}})
    assert "not measured" in table
    assert "**could not be measured**: lost 3 events |" in table


def test_an_absolute_bar_needs_no_peer() -> None:
    row = Row("import", "", measured_nowhere, Size(), Size(), bars=(Bar("wall_ms", 200, ""),))
    outcome: Results = {**results([], []), "rows": {"import": {OURS: [{"wall_ms": 150.0}]}}}
    (verdict,) = summarise(outcome, [row])
    assert verdict.holds is True
