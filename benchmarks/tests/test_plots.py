"""The plots: drawn from results, the same bytes from the same numbers, nothing of the machine inside."""

from pathlib import Path

import pytest

from benchmarks.rows import OURS, THEIRS, Bar, Numbers, Row, Size
from benchmarks.verdicts import Results

pytest.importorskip("matplotlib", reason="plots need the dependency group 'bench'")
from benchmarks import plots


def measured_nowhere(*_: object) -> Numbers:
    raise AssertionError("a plot measures nothing")


SIZES = (1_000, 10_000, 100_000)
NAMES = tuple(f"sync-{size}" for size in SIZES)
ROWS = (
    *(
        Row(name, "", measured_nowhere, Size("widgets", size), Size(), (OURS, THEIRS),
            (Bar("cpu_us", 0.2), Bar("total_mb", 1.05, "", over=NAMES)), family="sync", x=size)
        for name, size in zip(NAMES, SIZES, strict=True)
    ),
    Row("late", "Event to reconcile", measured_nowhere, Size(), Size(), (OURS, THEIRS), (Bar("p99_ms", 1.0),),
        section="Latency"),
)  # fmt: skip


def results() -> Results:
    def sync(size: int, factor: float) -> list[dict[str, float]]:
        return [{"cpu_us": factor * run, "total_cpu_ms": size * factor, "total_mb": size / 1e3} for run in (1.0, 1.1)]

    late = {"p50_ms": 0.1, "p99_ms": 0.5, "p999_ms": 1.0, "max_ms": 4.0}
    return {
        "machine": {},
        "quick": False,
        "runs": 2,
        "rows": {
            **{name: {OURS: sync(x, 1), THEIRS: sync(x, 9)} for name, x in zip(NAMES, SIZES, strict=True)},
            "late": {OURS: [late], THEIRS: [{**late, "p99_ms": 0.1}]},
        },
        "failed": {},
    }


@pytest.mark.slow
def test_growth_latencies_and_bars_are_drawn_as_svg_and_png(tmp_path: Path) -> None:
    written = plots.draw_all(results(), ROWS, tmp_path)
    names = ["bars", "peers", "growth-sync", "latency"]
    assert [path.name for path in written] == [f"{name}.{kind}" for name in names for kind in ("svg", "png")]
    growth = (tmp_path / "growth-sync.svg").read_text()
    assert "controller-runtime  (exponent 1.00)" in growth


@pytest.mark.slow
def test_the_same_numbers_give_the_same_bytes_and_no_date(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in plots.draw_all(results(), ROWS, tmp_path / "a")]
    again = [path.read_bytes() for path in plots.draw_all(results(), ROWS, tmp_path / "b")]
    assert first == again
    assert all(b"<dc:date>" not in picture for picture in first)


@pytest.mark.slow
def test_plots_of_rows_that_are_gone_go_too_and_flame_graphs_stay(tmp_path: Path) -> None:
    for name in ("growth-gone.svg", "patch-saturated-flame.svg"):
        (tmp_path / name).write_text("<svg/>")
    plots.draw_all(results(), ROWS, tmp_path)
    assert not (tmp_path / "growth-gone.svg").exists()
    assert (tmp_path / "patch-saturated-flame.svg").exists()


def test_results_without_numbers_draw_nothing(tmp_path: Path) -> None:
    nothing: Results = {"machine": {}, "quick": False, "runs": 0, "rows": {}, "failed": {}}
    assert plots.draw_all(nothing, ROWS, tmp_path) == []


@pytest.mark.slow
def test_totals_of_zero_and_missing_latencies_do_not_stop_a_plot(tmp_path: Path) -> None:
    odd = results()
    odd["rows"][NAMES[0]][OURS] = [{"cpu_us": 0.0, "total_cpu_ms": -1.0, "total_mb": 0.0}]
    odd["rows"]["late"][OURS] = [{"cpu_us": 1.0}]
    assert plots.draw_all(odd, ROWS, tmp_path)


def test_a_study_has_a_bar_for_each_peer(tmp_path: Path) -> None:
    svg, png = plots.draw_study("transports", results(), ROWS, tmp_path)
    assert (svg.name, png.name) == ("study-transports.svg", "study-transports.png")
    assert "9.45 µs" in svg.read_text()
