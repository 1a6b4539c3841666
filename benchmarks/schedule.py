"""The order of the measurements, and those that are left out when time runs short. Pure: times are arguments.

Rounds come first: every row once, then every row a second time, so that an early end leaves no row unmeasured, and a
machine that slows down slows all rows alike. Within a row of a round the peers follow each other, A B, and the next
round says A B again. A row of a round is left out whole or not at all, so that ratios keep both sides. What the planned
rounds leave of the budget goes to the calls that are closest, see `doubt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.rows import OURS, Row

UNKNOWN_S = 5.0
"""The assumed duration of a run until one is measured."""


@dataclass(frozen=True)
class Group:
    """One row of one round: all its peers, one after the other. `run` counts rounds from 0."""

    row: Row
    run: int
    peers: tuple[str, ...]


def groups(rows: Sequence[Row], runs: int | None, peers: Sequence[str] | None) -> list[Group]:
    """Round by round; `runs` and `peers`, where given, replace the rows' own. A row of ours alone stays ours alone."""
    return [
        Group(row, run, chosen)
        for run in range(max((runs_of(row, runs) for row in rows), default=0))
        for row in rows
        if (chosen := tuple(peer for peer in _peers(row, peers) if run < runs_of_peer(row, peer, runs)))
    ]


def _peers(row: Row, peers: Sequence[str] | None) -> Iterable[str]:
    return dict.fromkeys(peers if peers and row.peers != (OURS,) else row.peers)


def runs_of(row: Row, runs: int | None) -> int:
    return row.runs if runs is None else runs


def runs_of_peer(row: Row, peer: str, runs: int | None) -> int:
    """The planned runs of a peer: one if no bar of its row is about it, else those of the row; `runs` if given."""
    if runs is not None:
        return runs
    once = not any(peer in (bar.ours, bar.against) for bar in row.bars) if row.bars else peer in row.once
    return 1 if once else row.runs


def plan_table(plan: Sequence[Group], clock: Clock) -> list[list[str]]:
    """Return the planned rounds and runs of each row with their expected seconds, and the total."""
    found: dict[str, list[Group]] = {}
    for group in plan:
        found.setdefault(group.row.name, []).append(group)
    lines = [["row", "rounds", "runs", "seconds"]]
    for name, many in [*found.items(), ("in all", list(plan))]:
        runs, seconds = sum(len(group.peers) for group in many), sum(map(clock.cost, many))
        lines.append([name, str(1 + max(group.run for group in many)), str(runs), f"{seconds:.0f}"])
    return lines


@dataclass
class Clock:
    """The expected duration of runs, from measured ones; and the rest of the budget.

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
