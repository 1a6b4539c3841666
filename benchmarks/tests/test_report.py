"""The report of results: verdicts by medians, and every bar is reported."""

from pathlib import Path

import pytest

from benchmarks import history, written
from benchmarks.harness import BenchmarkError
from benchmarks.metrics import UNITS
from benchmarks.report import BEGIN, END, limit_of, render_table, row_lines, summarise, update_readme
from benchmarks.rows import KOPF, OURS, ROWS, THEIRS, Bar, Numbers, Row, Size
from benchmarks.tables import plain
from benchmarks.verdicts import Results, fit, growths, headrooms, ratios

TIMES = "\N{MULTIPLICATION SIGN}"


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


def family(exponent: float, sizes: tuple[int, ...] = (1_000, 10_000, 100_000)) -> tuple[list[Row], Results]:
    """Return rows of a family whose totals grow with that exponent, the bar on the last."""
    names = tuple(f"sync-{size}" for size in sizes)
    bar = Bar("total_cpu_ms", 1.05, "", over=names)
    rows = [
        Row(
            name, "", measured_nowhere, Size("widgets", size), Size("widgets", size // 10),
            bars=(bar,) if name == names[-1] else (), family="sync", x=size,
        )
        for name, size in zip(names, sizes, strict=True)
    ]  # fmt: skip
    found: Results = {"machine": {}, "quick": False, "runs": 2, "rows": {}, "failed": {}}
    for name, size in zip(names, sizes, strict=True):
        found["rows"][name] = {OURS: [{"total_cpu_ms": factor * size**exponent} for factor in (1.0, 1.01)]}
    return rows, found


def test_a_bar_is_judged_by_the_medians_not_by_the_best_run() -> None:
    (verdict,) = summarise(results([1.0, 30.0, 25.0], [100.0, 100.0, 100.0]), [ROW])
    assert verdict.ratio == 0.25
    assert verdict.spread == (0.01, 0.3)
    assert verdict.holds is False


def test_ratios_are_of_runs_that_were_made_in_one_round() -> None:
    outcome: Results = {
        **results([1.0, 1.0, 9.0], [10.0, 10.0, 10.0, 30.0]),
        "taken": {"sync": {"machine": {}, "runs": 4, "rounds": {OURS: [0, 1, 3]}}},
    }
    (verdict,) = summarise(outcome, [ROW])
    assert verdict.each == (0.1, 0.1, 0.3)
    assert verdict.ratio == 0.1
    assert "| 0.10 (0.10 to 0.30) | 3 | ≤ 0.2 | holds |" in render_table([verdict], outcome)


@pytest.mark.slow
def test_the_report_says_how_many_runs_a_row_has_of_whom(tmp_path: Path) -> None:
    outcome = results([10.0, 11.0, 12.0], [100.0, 100.0, 100.0])
    outcome["rows"]["sync"] |= {"kube-rs": [{"cpu_us": 3.0}], "client-go": [{"cpu_us": 3.0}]}
    written.write_all(outcome, [ROW], tmp_path)
    said = "- `sync`: A row (3 runs of steersman, controller-runtime; 1 of kube-rs, client-go)"
    assert said in (tmp_path / "report.md").read_text()


def test_a_missed_bar_is_printed_as_missed() -> None:
    outcome = results([25.0], [100.0])
    assert "**missed**" in render_table(summarise(outcome, [ROW]), outcome)
    assert row_lines(outcome, [ROW], [ROW]) == [f"sync  MISSED: CPU 0.25 {TIMES} controller-runtime (≤ 0.2)"]


def test_a_bar_without_numbers_neither_holds_nor_disappears() -> None:
    outcome = results([], [100.0], failed={OURS: "lost 3 events\nand more"})
    (verdict,) = summarise(outcome, [ROW])
    assert verdict.holds is None
    table = render_table([verdict], {**outcome, "rows": {}})
    assert "not measured" in table
    assert "**could not be measured**: lost 3 events |" in table
    (line,) = row_lines({**outcome, "rows": {}}, [ROW], [ROW])
    assert "steersman COULD NOT BE MEASURED" in line


def test_a_peer_that_the_machine_cannot_run_is_told_of_and_is_no_failure() -> None:
    outcome: Results = {**results([10.0], [100.0]), "skipped": {"sync": {"kube-rs": "no 'cargo' on PATH"}}}
    table = render_table(summarise(outcome, [ROW]), outcome)
    assert "| sync | kube-rs | **not measured**: no 'cargo' on PATH |" in table
    assert row_lines(outcome, [ROW], [ROW])[0].endswith(
        f"holds: CPU 0.10 {TIMES} controller-runtime (≤ 0.2); kube-rs not measured"
    )


def test_an_absolute_bar_needs_no_peer() -> None:
    row = Row("import", "", measured_nowhere, Size(), Size(), bars=(Bar("wall_ms", 200, ""),))
    outcome: Results = {**results([], []), "rows": {"import": {OURS: [{"wall_ms": 150.0}]}}}
    (verdict,) = summarise(outcome, [row])
    assert verdict.holds is True


def test_a_peer_that_took_nothing_gives_no_ratio() -> None:
    (verdict,) = summarise(results([1.0], [0.0]), [ROW])
    assert verdict.ratio is None


def test_less_than_nothing_holds_no_bar() -> None:
    outcome = results([-3.0, -1.0], [100.0, 100.0])
    (verdict,) = summarise(outcome, [ROW])
    assert verdict.holds is None
    assert "| -2.00 µs | controller-runtime | less than the noise |" in render_table([verdict], outcome)


@pytest.mark.parametrize(("exponent", "holds"), [(0.9, True), (1.0, True), (1.04, True), (1.2, False)])
def test_growth_is_judged_by_the_fitted_exponent(exponent: float, holds: bool) -> None:
    rows, outcome = family(exponent)
    (verdict,) = summarise(outcome, rows)
    assert verdict.ratio == pytest.approx(exponent)
    assert verdict.spread == pytest.approx((exponent, exponent))
    assert verdict.holds is holds


def test_growth_is_not_judged_where_a_size_is_missing() -> None:
    rows, outcome = family(1.0)
    del outcome["rows"]["sync-10000"]
    (verdict,) = summarise(outcome, rows)
    assert verdict.holds is None


def test_growth_is_not_judged_by_two_sizes() -> None:
    rows, outcome = family(1.0, (1_000, 10_000))
    (verdict,) = summarise(outcome, rows)
    assert verdict.holds is None


def test_a_peer_that_was_spared_the_full_size_stands_at_its_own() -> None:
    rows, outcome = family(1.0)
    spared = Row(**{**vars(rows[2]), "smaller": {KOPF: Size("widgets", 2_000)}})
    outcome["rows"]["sync-100000"][KOPF] = [{"total_cpu_ms": 7.0}]
    (grown,) = growths(outcome, [*rows[:2], spared])
    assert [point.x for point in grown.points[KOPF]] == [2_000]
    assert [point.x for point in grown.points[OURS]] == [1_000, 10_000, 100_000]


def test_quick_sizes_are_fitted_at_the_sizes_they_have() -> None:
    rows, outcome = family(1.0)
    (grown,) = growths({**outcome, "quick": True}, rows)
    assert [point.x for point in grown.points[OURS]] == [100, 1_000, 10_000]


def test_a_fit_needs_two_sizes_and_positive_totals() -> None:
    assert fit([(1, 1), (10, 100)]) == pytest.approx(2)
    assert fit([(1, 1), (1, 2)]) is None
    assert fit([(1, 1), (10, 0)]) is None


def test_each_peer_is_compared_with_the_like_of_ours() -> None:
    peers = (OURS, OURS + "+asyncio", KOPF, "kopf+uvloop", "kube-rs")
    row = Row("patch", "", measured_nowhere, Size(), Size(), peers, (Bar("cpu_us", 0.1, KOPF, OURS + "+asyncio"),))
    outcome = results([], [])
    outcome["rows"] = {"patch": {peer: [{"cpu_us": 1.0}] for peer in peers}}
    assert {r.peer: r.mine for r in ratios(outcome, [row])} == {
        KOPF: OURS + "+asyncio",
        "kopf+uvloop": OURS,
        "kube-rs": OURS,
    }


def test_a_form_is_compared_with_the_same_form_of_ours() -> None:
    peers = (OURS + "+metadata", THEIRS + "+metadata")
    row = Row("sync-metadata", "", measured_nowhere, Size(), Size(), peers)
    outcome = results([], [])
    outcome["rows"] = {row.name: {peer: [{"cpu_us": 1.0}] for peer in peers}}
    (found,) = ratios(outcome, [row])
    assert (found.mine, found.peer) == peers


def test_where_all_peers_are_ours_the_first_is_what_the_others_are_compared_with() -> None:
    row = Row("transport", "", measured_nowhere, Size(), Size(), ("native", "aiohttp"))
    outcome = results([], [])
    outcome["rows"] = {row.name: {"native": [{"cpu_us": 1.0}], "aiohttp": [{"cpu_us": 2.0}]}}
    (found,) = ratios(outcome, [row])
    assert (found.mine, found.peer, found.ratio) == ("native", "aiohttp", 0.5)


def test_the_ceiling_of_the_server_stands_beside_the_fastest_peer_that_decodes() -> None:
    ceiling = Row("headroom", "", measured_nowhere, Size("widgets"), Size(), (OURS, "bare+http1"))
    same = Row("events", "", measured_nowhere, Size("widgets"), Size(), (OURS, THEIRS))
    slow = Row("events-50", "", measured_nowhere, Size("widgets", rate=50), Size(), (OURS,))
    outcome = results([], [])
    outcome["rows"] = {
        "headroom": {OURS: [{"per_s": 30.0}], "bare+http1": [{"per_s": 100.0}]},
        "events": {OURS: [{"per_s": 40.0}], THEIRS: [{"per_s": 10.0}]},
        "events-50": {OURS: [{"per_s": 50.0}]},
    }
    (found,) = headrooms(outcome, [ceiling, same, slow])
    assert (found.ceiling, found.fastest, found.fastest_row) == (100.0, 40.0, "events")


def test_every_bar_of_every_row_has_a_unit() -> None:
    assert {bar.metric for row in ROWS for bar in row.bars} <= UNITS.keys()


def test_a_limit_is_said_as_it_was_set() -> None:
    assert limit_of(Bar("cpu_us", 0.12)) == "≤ 0.12"
    assert limit_of(Bar("cpu_us", 1 / 30, KOPF)) == "≤ 1/30"
    assert limit_of(Bar("wall_ms", 200, "")) == "≤ 200 ms"
    assert limit_of(Bar("total_mb", 1.05, "", over=("a", "b", "c"))) == "≤ 1.05"


def test_a_readme_without_markers_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Title\n")
    with pytest.raises(BenchmarkError, match="lost its markers"):
        update_readme(readme, "table", results([], []))
    assert readme.read_text() == "# Title\n"


@pytest.mark.slow
def test_the_report_has_every_row_and_the_readme_only_the_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    unbarred = Row("first-pass", "Another row", measured_nowhere, Size(), Size(), section="More")
    outcome = results([10.0, 11.0], [100.0, 100.0])
    outcome["rows"]["first-pass"] = {OURS: [{"cpu_us": 3.0}]}
    written.write_all(outcome, [ROW, unbarred], tmp_path)
    report, short = (tmp_path / "report.md").read_text(), readme.read_text()
    assert "## More" in report
    assert "| first-pass | steersman | CPU 3.00 µs |" in report
    assert "| sync | CPU | 10.5 µs | 100 µs (controller-runtime) | 0.10 (0.10 to 0.11) | 2 | ≤ 0.2 | holds |" in short
    assert "## The embedded cluster beside kube-apiserver" in report
    assert "first-pass" not in short
    assert short.startswith("before\n")
    assert short.endswith("after\n")
    assert "wrote" in capsys.readouterr().out


def test_report_and_readme_lead_with_the_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "STUDIES", ())
    monkeypatch.setattr(written, "_plots", lambda *_: [])
    monkeypatch.setattr(written, "_study_plot", lambda *_: [])
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\nold\n{END}\n")
    real = results([], [])
    real["rows"] = {"real-events": {OURS: [{"cpu_us": 30.0}], "controller-runtime": [{"cpu_us": 60.0}]}}
    history.save(tmp_path / "real.json", real)
    written.write_all(results([10.0], [100.0]), [ROW], tmp_path)
    line = "| real-events | CPU | 30.0 µs | 60.0 µs (controller-runtime) | 0.50 | 1 | ≤ 0.3 | **missed** |"
    for page in (readme.read_text(), (tmp_path / "report.md").read_text()):
        assert page.index(line) < page.index("| sync | CPU |")
    report = (tmp_path / "report.md").read_text()
    titles = [text for text in report.splitlines() if text.startswith("## ")]
    assert titles[:3] == [
        "## On a real kube-apiserver",
        "## In the image, on a real node",
        "## Bars with the stub server",
    ]
    assert "| image | container start to leader |" in report


def test_a_report_without_the_study_of_the_image_has_the_rows_of_the_real_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "_kept", lambda *_: None)
    report = "\n".join(written._image(tmp_path, {}))
    assert "| HelloApp: resident memory of the idle operator |" in report


@pytest.mark.slow
def test_a_study_whose_peers_are_all_ours_has_a_column_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "_plots", lambda *_: [])
    peers = {"python-3.11.2": [{"cpu_us": 80.0}], "python-3.14.0": [{"cpu_us": 88.0}, {"cpu_us": 88.0}]}
    kept: Results = {**results([], []), "runs": 2, "rows": {"python-patch": peers}}
    kept["machine"] = {"CPU": "another", "python-3.11.2": "-O2, GIL", "Free-threaded CPython": "none found"}
    history.save(tmp_path / "pythons.json", kept)
    written.write_all(results([1.0], [9.0]), [ROW], tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert "| row | measured | python-3.11.2 | python-3.14.0 |" in report
    assert "| python-patch | CPU | 80.0 µs | 88.0 µs (1.10) |" in report
    assert "Measured on: CPU: another.\n" in report
    assert "- CPython 3.11.2: -O2, GIL.\n- Free-threaded CPython: none found." in report


def test_small_sizes_never_reach_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "STUDIES", ())
    monkeypatch.setattr(written, "_plots", lambda *_: [])
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\nold\n{END}\n")
    written.write_all({**results([1.0], [9.0]), "quick": True}, [ROW], tmp_path)
    assert "old" in readme.read_text()
    assert "no evidence" in (tmp_path / "report.md").read_text()


def test_tables_for_the_terminal_are_aligned() -> None:
    assert plain(["| a | long name |", "|---|---|", "| **bbb** | c |"]) == "a    long name\nbbb  c"
