"""Which verdicts are least sure, and what to measure once more to make them surer. Pure: numbers in, groups out.

A machine shared with others is slow now and then, by a factor of two and for a second: with two runs or three a median
is that of the slow ones every so often. So the time that the planned rounds leave goes where it decides something.

What is measured more is chosen by how close a call is, and never by which way it goes: a bar that holds by a little and
one that is missed by a little are the same to these rules, or else measuring would go on until the result pleases.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.rows import Row
from benchmarks.schedule import Group
from benchmarks.verdicts import Results, Verdict, rounds_of, summarise

MAX_RUNS = 11
"""Rounds after which a verdict is as sure as it gets: six of them would have to meet a slow moment."""
_MAX_ROUNDS = 2 * MAX_RUNS
"""Rounds after which it ends, however many of them were stalled."""
NEAR = 0.1
"""A round that comes this close to its bar, as a part of the bar, could as well have landed on the other side."""
FEW = 3
"""With this number of rounds a call counts as twice as close, because all may have met one slow moment."""
_USUAL = 0.05
"""The assumed spread of rounds until it is measured."""
_EDGE = 0.5
"""Among calls closer than this, in standard deviations, the one with the fewest rounds comes first."""
_FURTHEST = 3.0


@dataclass(frozen=True)
class Doubt:
    """A verdict that could flip, and the groups that make up one more round of what it compares.

    `closeness` is the distance between what was measured and the bar, in standard deviations of a round. `rounds` were
    made, those that do not count among them.
    """

    verdict: Verdict
    rounds: int
    closeness: float
    groups: tuple[Group, ...]

    @property
    def wanted(self) -> int:
        """The number of further rounds that are allowed."""
        return min(MAX_RUNS - len(self.verdict.each), _MAX_ROUNDS - self.rounds)

    @property
    def runs(self) -> int:
        """The number of runs of one more round."""
        return sum(len(group.peers) for group in self.groups)


def doubts(results: Results, rows: Sequence[Row]) -> list[Doubt]:
    """The bars that were measured in too few rounds to be sure: rounds are on both sides of the bar, or near it.

    So is one with a single round, which has no spread to judge by, and one where noise or stalls were all there was.
    """
    return [
        Doubt(verdict, _made(verdict), _closeness(verdict), tuple(_once_more(verdict, results, rows)))
        for verdict in summarise(results, rows)
        if _open(verdict)
    ]


def next_round(found: Sequence[Doubt], cost: Callable[[Doubt], float], left: float) -> Doubt | None:
    """The closest of the calls that another round of fits into `left` seconds; None when nothing does.

    `cost` says what a round lasts. Closeness is weighed by the seconds that the rounds so far took, so that one call
    on the edge of its bar, which no number of rounds makes clear, does not take the time of all others.
    """
    fitting = [doubt for doubt in found if cost(doubt) <= left]
    return min(fitting, key=lambda doubt: (doubt.closeness + _EDGE) * doubt.rounds * cost(doubt), default=None)


def _made(verdict: Verdict) -> int:
    return len(verdict.each) + verdict.stalled


def _open(verdict: Verdict) -> bool:
    if not _made(verdict) or len(verdict.each) >= MAX_RUNS or _made(verdict) >= _MAX_ROUNDS:
        return False
    if verdict.ratio is None or len(verdict.each) == 1:
        return True
    away = _distances(verdict)
    near = NEAR * (1 + FEW / len(away))
    return min(away) <= near and max(away) >= -near


def _closeness(verdict: Verdict) -> float:
    if verdict.ratio is None:
        return 0.0
    away = _distances(verdict)
    middle = statistics.fmean(away)
    # One round more, which differs as usual: two that happen to agree are no proof that rounds agree.
    spread = math.sqrt((sum((one - middle) ** 2 for one in away) + _USUAL**2) / len(away))
    return abs(_distance(verdict, verdict.ratio)) / spread


def _distances(verdict: Verdict) -> list[float]:
    return [_distance(verdict, one) for one in verdict.each]


def _distance(verdict: Verdict, value: float) -> float:
    """Return the distance of a value above its bar, as a share; of ratios the logarithm, as 1/2 and 2 are equal."""
    limit = verdict.bar.limit
    if verdict.bar.over:
        return value - limit
    # Less than nothing is what is left of a small difference on a noisy machine.
    return max(-_FURTHEST, min(_FURTHEST, math.log(value / limit))) if value > 0 else -_FURTHEST


def _once_more(verdict: Verdict, results: Results, rows: Sequence[Row]) -> Iterator[Group]:
    """The two sides of a ratio; for an exponent ours at every size."""
    bar = verdict.bar
    members = [row for row in rows if row.name in bar.over] if bar.over else [verdict.row]
    following = 1 + max((n for row in members for n in rounds_of(results, row.name)), default=-1)
    peers = (bar.ours,) if bar.over or not bar.against else (bar.ours, bar.against)
    return (Group(row, following, peers) for row in members)
