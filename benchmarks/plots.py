"""Draws what the report shows: growth, latencies, ratios and bars, each as SVG and PNG.

The same results give the same bytes: no dates, fixed ids, nothing random. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.figures import SETTINGS, absolute, bars, growth, latencies, peers_plot
from benchmarks.rows import CEILING, Row
from benchmarks.verdicts import Ratio, Results, growths, ratios, summarise


def draw_all(results: Results, rows: Sequence[Row], directory: Path) -> list[Path]:
    """Every plot that the results have numbers for; the paths written. Plots of earlier reports are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        if old.suffix in (".svg", ".png") and old.stem.startswith(("growth-", "latency", "bars", "peers")):
            old.unlink()
    written: list[Path] = []
    with mpl.rc_context(SETTINGS):
        for name, figure in _figures(results, rows):
            written += _save(figure, directory / name)
    return written


def _figures(results: Results, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    verdicts = [v for v in summarise(results, rows) if v.ratio is not None and v.ratio > 0]
    if verdicts:
        yield "bars", bars(verdicts)
    if compared := _compared(results, rows):
        yield "peers", peers_plot(compared)
    grown = growths(results, rows)
    for family in dict.fromkeys(g.family for g in grown):
        yield f"growth-{family}", growth([g for g in grown if g.family == family])
    late = [row for row in rows if row.section == "Latency" and row.name in results["rows"]]
    if late:
        yield "latency", latencies(results, late)


def _compared(results: Results, rows: Sequence[Row]) -> list[Ratio]:
    """Return the ratios of each row's main metric; the ceiling of the server is no peer."""
    found = [r for r in ratios(results, rows) if r.peer not in CEILING and r.ratio > 0]
    first: dict[str, str] = {}
    for r in found:
        first.setdefault(r.row.name, r.metric)
    return [r for r in found if r.metric == first[r.row.name]]


def draw_study(name: str, results: Results, rows: Sequence[Row], directory: Path) -> list[Path]:
    """Draw the main metric of each row of a study, with a bar for each peer."""
    measured = [row for row in rows if row.name in results["rows"]]
    if not measured:
        return []
    directory.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(SETTINGS):
        return _save(absolute(results, measured), directory / f"study-{name}")


def _save(figure: Figure, stem: Path) -> list[Path]:
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    figure.savefig(svg, metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.15)
    figure.savefig(png, metadata={"Software": None}, dpi=144, bbox_inches="tight", pad_inches=0.15)
    return [svg, png]
