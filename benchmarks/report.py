"""Renders results as Markdown: the bars for the README, everything for the report, a line a row for the terminal.

Nothing here measures or judges (see `verdicts`); a missed bar is printed as missed, and what was not measured is
printed as not measured.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.facts import described, machine
from benchmarks.harness import BenchmarkError
from benchmarks.metrics import UNITS, name_of, number, quantity, ratio
from benchmarks.rows import OURS, Bar, Row
from benchmarks.verdicts import Growth, Headroom, Ratio, Results, Verdict, main_metrics, summarise, values

__all__ = ["UNITS", "Results", "Verdict", "machine", "render_table", "row_lines", "summarise", "update_readme"]

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
_TIMES = "\N{MULTIPLICATION SIGN}"


def render_table(summary: Sequence[Verdict], results: Results) -> str:
    """Markdown: the bars first, then every number."""
    lines = [*bars_table(summary), "", "Every number (median, and smallest to largest of the runs):", ""]
    rows: dict[str, None] = dict.fromkeys([*results["rows"], *results["failed"], *results.get("skipped", {})])
    return "\n".join([*lines, *numbers_table(results, list(rows))]) + "\n"


def bars_table(summary: Sequence[Verdict]) -> list[str]:
    """One line a bar; its runs are those of rounds that both sides were measured in, and that were not stalled."""
    lines = ["| row | measured | ours | peer | ratio (spread) | runs | bar | |", "|---|---|---|---|---|---|---|---|"]
    return lines + [_bar_line(verdict) for verdict in summary]


def _bar_line(v: Verdict) -> str:
    name, bar = name_of(v.bar.metric), v.bar
    if bar.over:
        name = f"{name}, exponent"
    asked = f"{_counted(v)} | {limit_of(bar)}"
    if v.ratio is None:
        ours = quantity(bar.metric, v.ours) if v.ours is not None else ""
        peer = "" if bar.over else bar.against
        return f"| {v.row.name} | {name} | {ours} | {peer} | {_unknown(v)} | {asked} | — |"
    spread = _span(v.spread, number if bar.over else ratio)
    verdict = "holds" if v.holds else "**missed**"
    if bar.over:
        return f"| {v.row.name} | {name} | {number(v.ours)}{spread} | | | {asked} | {verdict} |"
    ours = quantity(bar.metric, v.ours)
    if not bar.against:
        return f"| {v.row.name} | {name} | {ours} | | | {asked} | {verdict} |"
    theirs = f"{quantity(bar.metric, v.theirs)} ({bar.against})"
    return f"| {v.row.name} | {name} | {ours} | {theirs} | {ratio(v.ratio)}{spread} | {asked} | {verdict} |"


def _counted(v: Verdict) -> str:
    """Return the number of rounds of the verdict."""
    if v.stalled:
        return f"{len(v.each)} of {len(v.each) + v.stalled}"
    return f"{len(v.each) or ''}"


def _unknown(v: Verdict) -> str:
    if v.noise:
        return "less than the noise"
    return "stalled by the host in every round" if v.stalled else "not measured"


def limit_of(bar: Bar) -> str:
    if bar.over:
        return f"≤ {bar.limit:g}"
    if not bar.against:
        return f"≤ {quantity(bar.metric, bar.limit)}"
    fraction = bar.limit < 0.1 or (bar.against.startswith("kopf") and bar.limit < 1)
    return f"≤ 1/{1 / bar.limit:.0f}" if fraction else f"≤ {bar.limit:g}"


def numbers_table(results: Results, rows: Sequence[str]) -> list[str]:
    """Every number of the rows, and who could not be measured."""
    lines = ["| row | peer | numbers |", "|---|---|---|"]
    for row in rows:
        for peer, runs in results["rows"].get(row, {}).items():
            lines.append(f"| {row} | {peer} | {'; '.join(_numbers(runs))} |")
    said = (("could not be measured", results["failed"]), ("not measured", results.get("skipped", {})))
    return lines + [
        f"| {row} | {peer} | **{what}**: {first_line(why)} |"
        for what, by_row in said
        for row in rows
        for peer, why in by_row.get(row, {}).items()
    ]


def _numbers(runs: Sequence[dict[str, float]]) -> Iterator[str]:
    for metric in runs[0]:
        numbers = [run[metric] for run in runs if metric in run]
        if any(numbers):
            spread = f" ({number(min(numbers))} to {number(max(numbers))})" if len(numbers) > 1 else ""
            yield f"{name_of(metric)} {quantity(metric, statistics.median(numbers))}{spread}"


def first_line(text: str) -> str:
    """Return the first line of a text, escaped for a cell."""
    lines = text.strip().splitlines() or ["no reason given"]
    return lines[0].replace("|", "\\|")


def ratios_table(found: Sequence[Ratio]) -> list[str]:
    """Ours beside every peer: medians, spreads, ratio."""
    lines = [
        "| row | measured | ours (spread) | peer | theirs (spread) | ratio (spread) |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {r.row.name} | {name_of(r.metric)} | {_with_spread(r.metric, r.ours)}{_variant(r)} | {r.peer} "
        f"| {_with_spread(r.metric, r.theirs)} | {ratio(r.ratio)}{_span(r.spread, ratio)} |"
        for r in found
    ]


def across_table(results: Results, rows: Sequence[Row]) -> list[str]:
    """A column for each peer, where all are ours: medians, and in brackets their ratios to the first peer's.

    Of what the row is mainly about, and of memory.
    """
    measured = [row for row in rows if row.name in results["rows"]]
    peers = list(dict.fromkeys(peer for row in measured for peer in results["rows"][row.name]))
    lines = [f"| row | measured | {' | '.join(peers)} |", "|---|---|" + "---|" * len(peers)]
    for row in measured:
        for metric in dict.fromkeys([*main_metrics(row, results), "rss_mb"]):
            medians = [statistics.median(values(results, row.name, peer, metric) or [math.nan]) for peer in peers]
            if all(map(math.isnan, medians)):
                continue
            cells = [_cell(metric, median, medians[0]) for median in medians]
            lines.append(f"| {row.name} | {name_of(metric)} | {' | '.join(cells)} |")
    return lines


def _cell(metric: str, median: float, first: float) -> str:
    if math.isnan(median):
        return ""
    beside = "" if math.isnan(first) or median == first or first <= 0 else f" ({median / first:.2f})"
    return f"{quantity(metric, median)}{beside}"


def _variant(r: Ratio) -> str:
    return "" if r.mine == OURS else f" ({r.mine.removeprefix(OURS + '+')})"


def _with_spread(metric: str, numbers: tuple[float, float, float]) -> str:
    median, low, high = numbers
    return f"{quantity(metric, median)}{_span((low, high), number)}"


def _span(ends: tuple[float, float] | None, said: Callable[[float], str]) -> str:
    """The spread in brackets; nothing of a single run."""
    return "" if ends is None or ends[0] == ends[1] else f" ({said(ends[0])} to {said(ends[1])})"


def growth_table(found: Sequence[Growth]) -> list[str]:
    """The totals at each size, and the exponent fitted through them."""
    lines = ["| family | total | peer | by size | exponent |", "|---|---|---|---|---|"]
    for grown in found:
        for peer, points in grown.points.items():
            sizes = "; ".join(f"{p.x:,.0f}: {quantity(grown.metric, p.median)}" for p in points)
            exponent = grown.exponents.get(peer)
            fitted = "" if exponent is None else f"{exponent:.2f}"
            lines.append(f"| {grown.family} | {name_of(grown.metric)} | {peer} | {sizes} {grown.x_name} | {fitted} |")
    return lines


def headroom_lines(found: Sequence[Headroom]) -> list[str]:
    """Return a line for each headroom: the limit of the server, and the fastest peer that decodes."""
    return [
        f"{h.row.name}: {h.ceiling_peer} {number(h.ceiling)} a second; the fastest that decodes, {h.fastest_peer} in "
        f"{h.fastest_row}, {number(h.fastest)}: {h.fastest / h.ceiling:.0%} of it"
        for h in found
    ]


def row_lines(results: Results, shown: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """One line for each row that is shown: which of its bars hold. `rows` are all, which bars on growth look at."""
    width = max((len(row.name) for row in shown), default=0)
    verdicts = summarise(results, rows)
    return [
        f"{row.name:{width}}  {_row_line(results, row, [v for v in verdicts if v.row.name == row.name])}"
        for row in shown
    ]


def _row_line(results: Results, row: Row, verdicts: Sequence[Verdict]) -> str:
    failed = [f"{peer} COULD NOT BE MEASURED" for peer in results["failed"].get(row.name, {})]
    absent = [f"{peer} not measured" for peer in results.get("skipped", {}).get(row.name, {})]
    said = [_said(verdict) for verdict in verdicts] or [_unbarred(results, row)]
    return "; ".join([*failed, *said, *absent])


def _said(v: Verdict) -> str:
    name = name_of(v.bar.metric)
    against = f" {_TIMES} {v.bar.against}" if v.bar.against and not v.bar.over else ""
    if v.ratio is None:
        return f"{name}{against}: {_unknown(v)} (bar {limit_of(v.bar)})"
    word = "holds" if v.holds else "MISSED"
    if v.bar.over:
        return f"{word}: {name} grows with exponent {number(v.ours)} ({limit_of(v.bar)})"
    value = ratio(v.ratio) if against else quantity(v.bar.metric, v.ours)
    return f"{word}: {name} {value}{against} ({limit_of(v.bar)})"


def _unbarred(results: Results, row: Row) -> str:
    metric = next(iter(main_metrics(row, results)), None)
    if metric is None:
        return "not measured"
    medians = (
        f"{peer} {quantity(metric, statistics.median(numbers))}"
        for peer in results["rows"][row.name]
        if (numbers := values(results, row.name, peer, metric))
    )
    return f"no bar: {name_of(metric)}: {', '.join(medians)}"


def measured_on(results: Results, known: Mapping[str, str] | None = None) -> str:
    """The facts that are not `known` to the reader from above."""
    note = "Small sizes (--quick): no evidence.\n\n" if results["quick"] else ""
    facts = {name: fact for name, fact in results["machine"].items() if known is None or known.get(name) != fact}
    return f"{note}Measured on: {described(facts)}." if facts else f"{note}Measured on the same machine."


def update_readme(path: Path, table: str, results: Results) -> None:
    """Replace what stands between the markers. Raises BenchmarkError when the markers are gone."""
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise BenchmarkError(f"{path.name} has lost its markers {BEGIN} and {END}")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    said = textwrap.fill(f"{measured_on(results)} {_interleaved(results)}", 120)
    path.write_text(f"{head}{BEGIN}\n\n{said}\n\n{table}\n{END}{tail}")


def _interleaved(results: Results) -> str:
    counts = {max(map(len, peers.values()), default=0) for peers in results["rows"].values()} or {0}
    fewest, most = min(counts), max(counts)
    return f"{most if fewest == most else f'{fewest} to {most}'} interleaved run{'s' if most != 1 else ''} of each row."
