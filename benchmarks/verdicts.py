"""From raw results to medians, ratios, exponents and verdicts. Pure: measures nothing, prints nothing.

A ratio is of the medians of the rounds that both sides were measured in, side by side; its spread is that of the
ratio round by round. An exponent is the slope of the least-squares line through the logarithms of size and total.

A round in which the host stalled one of the sides is reported and counts in no ratio: see `MAX_STALL_PERCENT`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from benchmarks.metrics import STALLED
from benchmarks.rows import CEILING, OURS, Bar, Row

SIZES_FOR_A_BAR = 3
"""An exponent fitted through fewer sizes proves nothing."""
MAX_STALL_PERCENT = 0.5
"""A run counts while the host kept the cores from running for no more of it than this, in percent.

Where the slowest hundredth of the events is what is asked for, stalls of half a hundredth of the time decide what that
is. It is the stalls that are looked at, whichever side they met, and never what was measured.
"""
GROWING = ("total_cpu_ms", "total_mb")
"""The totals that a row of a family reports."""


class Taken(TypedDict):
    """The conditions of one row's numbers: the machine, the number of runs, and the duration of a run of each peer."""

    machine: dict[str, str]
    runs: int
    """The most that any of the peers has."""
    asked: NotRequired[int]
    """The runs that were asked for, where fewer were made."""
    rounds: NotRequired[dict[str, list[int]]]
    """The round of each run of a peer, from 0, if it did not take part in all rounds up to its last."""
    seconds: NotRequired[dict[str, float]]


class Results(TypedDict):
    machine: dict[str, str]
    quick: bool
    runs: int
    rows: dict[str, dict[str, list[dict[str, float]]]]
    failed: dict[str, dict[str, str]]
    skipped: NotRequired[dict[str, dict[str, str]]]
    """Peers that this machine cannot run, and why: no failure."""
    taken: NotRequired[dict[str, Taken]]
    changes: NotRequired[list[str]]
    """The changes since the previous results, in words; absent without previous results."""


@dataclass(frozen=True)
class Verdict:
    """One bar: what was measured, what was asked. `holds` is None when one side has no numbers.

    Nor does a bar hold or not hold when a median is not above zero: what was measured is then less than the noise of
    what was subtracted.
    For a bar on growth `ours` and `ratio` are the exponent. `each` is what the rounds say that both sides were in, and
    `stalled` how many more there are that do not count.
    """

    row: Row
    bar: Bar
    ours: float | None
    theirs: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    each: tuple[float, ...] = ()
    stalled: int = 0

    @property
    def holds(self) -> bool | None:
        return None if self.ratio is None else self.ratio <= self.bar.limit

    @property
    def noise(self) -> bool:
        """Both sides were measured, and one of them as nothing."""
        return self.ratio is None and self.ours is not None


@dataclass(frozen=True)
class Point:
    """Totals at one size: the median, and the smallest and largest of the runs."""

    x: float
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Growth:
    """The growth of a metric along the rows of one family: each peer's points, and the fitted exponents."""

    family: str
    metric: str
    x_name: str
    points: Mapping[str, tuple[Point, ...]]
    exponents: Mapping[str, float]


@dataclass(frozen=True)
class Ratio:
    """Ours ÷ a peer's in one metric of one row, with both sides' medians and extremes in the rounds of both."""

    row: Row
    metric: str
    mine: str
    peer: str
    ours: tuple[float, float, float]
    theirs: tuple[float, float, float]
    ratio: float
    spread: tuple[float, float]


def summarise(results: Results, rows: Sequence[Row]) -> list[Verdict]:
    """The verdict on every bar of the rows, by medians."""
    return [
        _exponent(results, rows, row, bar) if bar.over else _verdict(results, row, bar)
        for row in rows
        for bar in row.bars
    ]


def _verdict(results: Results, row: Row, bar: Bar) -> Verdict:
    stalled = 0
    if bar.against:
        pairs = side_by_side(results, row.name, bar.metric, bar.ours, bar.against)
        stalled = stalled_rounds(results, row.name, bar.ours, bar.against)
    else:
        pairs = [(n, 1.0) for n in values(results, row.name, bar.ours, bar.metric)]
    if not pairs:
        return Verdict(row, bar, None, None, None, None, stalled=stalled)
    a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
    each = tuple(x / y for x, y in pairs if y > 0)
    if a <= 0 or b <= 0:
        return Verdict(row, bar, a, b, None, None, each, stalled)
    return Verdict(row, bar, a, b, a / b, (min(each), max(each)), each, stalled)


def values(results: Results, row: str, peer: str, metric: str) -> list[float]:
    """The metric of each run; left out are runs that do not have it, and stalled ones where there are others."""
    runs = results["rows"].get(row, {}).get(peer, [])
    return [run[metric] for run in list(filter(_unstalled, runs)) or runs if metric in run]


def _unstalled(run: Mapping[str, float]) -> bool:
    return run.get(STALLED, 0.0) <= MAX_STALL_PERCENT


def rounds_of(results: Results, row: str) -> set[int]:
    """The rounds in which anything of a row was measured."""
    return {n for peer in results["rows"].get(row, {}) for n in rounds_in(results, row, peer)}


def rounds_in(results: Results, row: str, peer: str) -> Sequence[int]:
    """The round of each run of a peer."""
    runs = results["rows"].get(row, {}).get(peer, [])
    how = results.get("taken", {}).get(row)
    return (how.get("rounds", {}) if how else {}).get(peer, range(len(runs)))


def by_round(results: Results, row: str, peer: str, metric: str) -> dict[int, float]:
    """The metric of each run that has it and was not stalled, by the round in which it was made."""
    runs = results["rows"].get(row, {}).get(peer, [])
    made = zip(rounds_in(results, row, peer), runs, strict=True)
    return {n: run[metric] for n, run in made if metric in run and _unstalled(run)}


def stalled_rounds(results: Results, row: str, ours: str, theirs: str) -> int:
    """Return the number of rounds of both sides that do not count, because one of them was stalled."""
    mine, beside = (
        dict(zip(rounds_in(results, row, peer), results["rows"].get(row, {}).get(peer, []), strict=True))
        for peer in (ours, theirs)
    )
    return sum(not (_unstalled(mine[n]) and _unstalled(beside[n])) for n in mine.keys() & beside.keys())


def side_by_side(results: Results, row: str, metric: str, ours: str, theirs: str) -> list[tuple[float, float]]:
    """Both sides' numbers of each round that both took part in, and that stalled neither."""
    mine, beside = by_round(results, row, ours, metric), by_round(results, row, theirs, metric)
    return [(mine[n], beside[n]) for n in sorted(mine.keys() & beside.keys())]


def run_ratios(results: Results, row: str, metric: str, ours: str, theirs: str) -> list[float]:
    """The ratio of each round that both sides took part in, where theirs is above zero."""
    return [x / y for x, y in side_by_side(results, row, metric, ours, theirs) if y > 0]


def main_metrics(row: Row, results: Results) -> list[str]:
    """Return the main metrics of the row: those with a bar, and the first that it reports."""
    peers = results["rows"].get(row.name, {})
    runs = peers.get(OURS) or next(iter(peers.values()), [])
    first = next(iter(runs[0]), None) if runs else None
    metrics = [bar.metric for bar in row.bars if not bar.over] + ([first] if first else [])
    return list(dict.fromkeys(metrics))


def ratios(results: Results, rows: Sequence[Row]) -> Iterator[Ratio]:
    """Ours beside every peer that was measured, in the main metrics of each row."""
    for row in rows:
        measured = results["rows"].get(row.name, {})
        for metric in main_metrics(row, results):
            for peer in measured:
                mine = counterpart(row, peer, list(measured))
                if peer == mine or peer.partition("+")[0] == OURS:
                    continue
                pairs = side_by_side(results, row.name, metric, mine, peer)
                if pairs and statistics.median(y for _, y in pairs) > 0:
                    yield _ratio(row, metric, mine, peer, pairs)


def _ratio(row: Row, metric: str, mine: str, peer: str, pairs: Sequence[tuple[float, float]]) -> Ratio:
    ours, theirs = (extremes(side) for side in zip(*pairs, strict=True))
    each = [x / y for x, y in pairs if y > 0]
    return Ratio(row, metric, mine, peer, ours, theirs, ours[0] / theirs[0], (min(each), max(each)))


def counterpart(row: Row, peer: str, measured: Sequence[str]) -> str:
    """Which of ours a peer is compared with: as a bar says, else ours in the same form, else ours as it comes.

    Where all peers are ours, as in a study of transports, the first of them is what the others are compared with.
    """
    said = [bar.ours for bar in row.bars if bar.against == peer]
    variants = "+".join([OURS, *peer.split("+")[1:]])
    return next((mine for mine in [*said, variants, OURS, *row.peers, *measured] if mine in measured), OURS)


def extremes(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Median, smallest, largest."""
    return statistics.median(numbers), min(numbers), max(numbers)


def growths(results: Results, rows: Sequence[Row]) -> list[Growth]:
    """Return the growths of each family of rows, in the order of the rows."""
    families = dict.fromkeys(row.family for row in rows if row.family)
    return [
        grown
        for family in families
        for metric in _grown_metrics([row for row in rows if row.family == family], results)
        if (grown := _growth(results, [row for row in rows if row.family == family], metric)).points
    ]


def _grown_metrics(rows: Sequence[Row], results: Results) -> list[str]:
    reported = {metric for row in rows for runs in results["rows"].get(row.name, {}).values() for metric in runs[0]}
    barred = [bar.metric for row in rows for bar in row.bars if bar.over]
    totals = [metric for metric in GROWING if metric in reported]
    usual = [] if totals else [metric for metric in ("cpu_us", "rss_mb") if metric in reported]
    return list(dict.fromkeys([*totals, *usual, *barred]))


def _growth(results: Results, rows: Sequence[Row], metric: str) -> Growth:
    peers = dict.fromkeys(peer for row in rows for peer in results["rows"].get(row.name, {}))
    points = {peer: _points(results, rows, peer, metric) for peer in peers}
    fitted = {peer: fit([(p.x, p.median) for p in line]) for peer, line in points.items()}
    return Growth(
        rows[0].family,
        metric,
        rows[0].x_name,
        {peer: line for peer, line in points.items() if line},
        {peer: slope for peer, slope in fitted.items() if slope is not None},
    )


def _points(results: Results, rows: Sequence[Row], peer: str, metric: str) -> tuple[Point, ...]:
    sized = ((_x(row, peer, results), values(results, row.name, peer, metric)) for row in rows)
    return tuple(Point(x, *extremes(numbers)) for x, numbers in sorted(sized) if numbers)


def _x(row: Row, peer: str, results: Results) -> float:
    """The size that the peer was measured at, where it was spared the row's."""
    return row.size(peer, quick=results["quick"]).objects if row.x == row.full.objects else row.x


def _exponent(results: Results, rows: Sequence[Row], row: Row, bar: Bar) -> Verdict:
    over = [other for other in rows if other.name in bar.over]
    by_size = {_x(other, bar.ours, results): by_round(results, other.name, bar.ours, bar.metric) for other in over}
    if len(by_size) < max(len(bar.over), SIZES_FOR_A_BAR) or not all(by_size.values()):
        return Verdict(row, bar, None, None, None, None)
    slope = fit([(x, statistics.median(numbers.values())) for x, numbers in by_size.items()])
    if slope is None:
        return Verdict(row, bar, None, None, None, None)
    together = sorted(set[int].intersection(*(set(numbers) for numbers in by_size.values())))
    fitted = (fit([(x, numbers[n]) for x, numbers in by_size.items()]) for n in together)
    slopes = tuple(one for one in fitted if one is not None)
    return Verdict(row, bar, slope, None, slope, (min(slopes), max(slopes)) if slopes else None, slopes)


@dataclass(frozen=True)
class Headroom:
    """The throughput of the fastest measured peer, beside the limit of the server."""

    row: Row
    ceiling: float
    ceiling_peer: str
    fastest: float
    fastest_peer: str
    fastest_row: str


def headrooms(results: Results, rows: Sequence[Row]) -> list[Headroom]:
    """Return the headroom of each row with a peer that decodes nothing, over the peers with the same work."""
    return [found for row in rows if (found := _headroom(results, rows, row))]


def _headroom(results: Results, rows: Sequence[Row], row: Row) -> Headroom | None:
    alike = [
        other
        for other in rows
        if other.measure is row.measure and (other.full.kind, other.full.rate) == (row.full.kind, row.full.rate)
    ]
    rates = [
        (statistics.median(numbers), peer, other.name)
        for other in alike
        for peer in results["rows"].get(other.name, {})
        if (numbers := values(results, other.name, peer, "per_s"))
    ]
    ceilings = [rate for rate in rates if rate[1] in CEILING and rate[2] == row.name]
    others = [rate for rate in rates if rate[1] not in CEILING]
    if not ceilings or not others:
        return None
    ceiling, fastest = max(ceilings), max(others)
    return Headroom(row, ceiling[0], ceiling[1], *fastest)


def fit(points: Sequence[tuple[float, float]]) -> float | None:
    """The exponent p of y = c·x^p by least squares on logarithms; None for fewer than two sizes or a y ≤ 0."""
    if len({x for x, _ in points}) < 2 or any(x <= 0 or y <= 0 for x, y in points):
        return None
    return statistics.linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points]).slope
