"""In which order what is measured, and what is left out when time runs short. Pure: time comes in as numbers.

Rounds come first: every row once, then every row a second time, so that an early end leaves no row unmeasured, and a
machine that slows down slows all rows alike. Within a row of a round the peers follow each other, A B, and the next
round says A B again. A row of a round is left out whole or not at all, so that ratios keep both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.rows import OURS, Row

UNKNOWN_S = 5.0
"""What a run is taken to last until one was seen."""


@dataclass(frozen=True)
class Group:
    """One row of one round: all its peers, one after the other."""

    row: Row
    run: int
    peers: tuple[str, ...]


def groups(rows: Sequence[Row], runs: int | None, peers: Sequence[str] | None) -> list[Group]:
    """Round by round; `runs` and `peers`, where given, replace the rows' own. A row of ours alone stays ours alone."""
    rounds = max((runs_of(row, runs) for row in rows), default=0)
    return [
        Group(row, run, tuple(dict.fromkeys(peers if peers and row.peers != (OURS,) else row.peers)))
        for run in range(rounds)
        for row in rows
        if run < runs_of(row, runs)
    ]


def runs_of(row: Row, runs: int | None) -> int:
    return row.runs if runs is None else runs


@dataclass
class Clock:
    """What runs are expected to last, learned from what they lasted; and what the budget still allows.

    `budget` is in seconds. A first round is never left out: a row without numbers would say nothing at all.
    """

    budget: float
    known: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    _seen: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    def lasted(self, row: str, peer: str, seconds: float) -> None:
        self._seen[row, peer] = max(seconds, self._seen.get((row, peer), 0.0))

    def expected(self, row: str, peer: str) -> float:
        """Seconds of one run: of this session, else of the last one, else a guess."""
        return self._seen.get((row, peer), self.known.get((row, peer), UNKNOWN_S))

    def cost(self, group: Group, dropped: Iterable[tuple[str, str]] = ()) -> float:
        gone = set(dropped)
        return sum(self.expected(group.row.name, p) for p in group.peers if (group.row.name, p) not in gone)

    def fits(self, group: Group, spent: float, dropped: Iterable[tuple[str, str]] = ()) -> bool:
        return group.run == 0 or spent + self.cost(group, dropped) <= self.budget

    def left(self, ahead: Sequence[Group], spent: float, dropped: Iterable[tuple[str, str]] = ()) -> float:
        """Seconds until the end, as far as one can tell: what is ahead and fits."""
        gone, total = set(dropped), 0.0
        for group in ahead:
            if self.fits(group, spent + total, gone):
                total += self.cost(group, gone)
        return total
