"""The measurements of one call: the planned rounds, then the closest calls, within a budget, with progress output.

An interrupt, a peer that fails or cannot be had, and a budget that is spent all end in results that say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks import history
from benchmarks.doubt import Doubt, doubts, next_round
from benchmarks.facts import machine
from benchmarks.harness import Bench, BenchmarkError, NotMeasuredError
from benchmarks.progress import Progress, span
from benchmarks.rows import Row
from benchmarks.schedule import Clock, Group, groups, runs_of
from benchmarks.verdicts import Results, Taken


def measure(
    rows: Sequence[Row], runs: int | None, peers: Sequence[str] | None, budget: float,
    before: Results | None = None, *, quick: bool, opened: Callable[[], Bench],
    now: Callable[[], float] = time.monotonic, surer: bool = False,
) -> tuple[Results, bool]:  # fmt: skip
    """Measure the rows, round by round, within `budget` seconds; and whether it came to its end.

    With `surer`, what is left of the budget goes to the closest calls. An interrupt ends it early with what there is.
    """
    plan = groups(rows, runs, peers)
    usable = before if before is not None and before["quick"] == quick else None
    clock = Clock(budget, history.seconds(usable))
    session = _Session(quick, clock, now, sum(len(group.peers) for group in plan), rows if surer else ())
    for group in plan:
        session.asked[group.row.name] = runs_of(group.row, runs)
    finished = True
    bench: Bench | None = None
    with session.progress:
        try:
            bench = opened()
            session.prepare(bench, dict.fromkeys(peer for group in plan for peer in group.peers))
            session.all(bench, plan)
            session.surer(bench)
        except KeyboardInterrupt:
            finished = False
            session.progress.say("interrupted: reporting what was measured")
        finally:
            if bench is not None:
                bench.close()
    return session.results(), finished


class _Session:
    """The state of one call: the results, the clock, and the peers that are out."""

    def __init__(
        self, quick: bool, clock: Clock, now: Callable[[], float], steps: int, judged: Sequence[Row] = ()
    ) -> None:
        """`judged` are the rows whose close calls get what is left of the budget."""
        self._results: Results = {
            "machine": machine(), "quick": quick, "runs": 0, "rows": {}, "failed": {}, "skipped": {}, "taken": {},
        }  # fmt: skip
        self._clock = clock
        self._done = 0
        self._judged = judged
        self._seconds: dict[str, dict[str, list[float]]] = {}
        self._rounds: dict[str, dict[str, list[int]]] = {}
        self._out: set[tuple[str, str]] = set()
        self._now = now
        self._began = now()
        self.asked: dict[str, int] = {}
        self.progress = Progress(steps)

    def prepare(self, bench: Bench, peers: Sequence[str] | dict[str, None]) -> None:
        """Build every peer, and only then start the clock. A peer that cannot be built is told of by its rows."""
        for peer in peers:
            try:
                bench.prepare(peer)
            except NotMeasuredError:
                continue
            except BenchmarkError as error:
                self.progress.say(f"{peer}: {error}")
        self._began = self._now()

    def all(self, bench: Bench, plan: Sequence[Group]) -> None:
        """The planned rounds."""
        for n, group in enumerate(plan):
            if not self._clock.fits(group, self._spent(), self._out):
                self._drop(group)
            else:
                self._group(bench, group, plan[n + 1 :], self._needed(self._doubts()))

    def surer(self, bench: Bench) -> None:
        """Round by round the closest of the calls, until all had enough rounds or the budget is spent."""
        while True:
            left = self._clock.budget - self._spent()
            found = [doubt for doubt in self._doubts() if self._cost(doubt) <= left]
            doubt = next_round(found, self._cost, left)
            if doubt is None:
                return
            needed = self._needed(found)
            room = 1.0 if needed <= left else left / needed
            steps = round(room * sum(one.wanted * one.runs for one in found))
            self.progress.expect(self._done + max(doubt.runs, steps))
            for n, group in enumerate(doubt.groups, 1):
                self._group(bench, group, doubt.groups[n:], needed - self._cost(doubt), ", a close call")

    def _group(self, bench: Bench, group: Group, ahead: Sequence[Group], later: float, why: str = "") -> None:
        """`ahead` is what follows for certain, and `later` the seconds that may follow where the budget has them."""
        for at, peer in enumerate(group.peers):
            if (group.row.name, peer) in self._out:
                self.progress.skip(1)
                continue
            spent = self._spent()
            left = self._clock.cost(Group(group.row, group.run, group.peers[at:]), self._out)
            left += self._clock.left(ahead, spent + left, self._out)
            left += max(0.0, min(later, self._clock.budget - spent - left))
            self.progress.step(self._done, f"{group.row.name} · {peer} · run {group.run + 1}{why}", spent, left)
            self._one(bench, group.row, peer, group.run)
            self._done += 1

    def _spent(self) -> float:
        return self._now() - self._began

    def _doubts(self) -> list[Doubt]:
        """The close calls all of whose peers still run."""
        found = doubts(self.results(), self._judged) if self._judged else []
        return [
            doubt
            for doubt in found
            if not any((group.row.name, peer) in self._out for group in doubt.groups for peer in group.peers)
        ]

    def _cost(self, doubt: Doubt) -> float:
        return sum(self._clock.cost(group) for group in doubt.groups)

    def _needed(self, found: Sequence[Doubt]) -> float:
        """Seconds that close calls would take after the planned rounds until all had enough."""
        planned = (max(0, self.asked[doubt.verdict.row.name] - doubt.rounds) for doubt in found)
        return sum(max(0, one.wanted - ahead) * self._cost(one) for ahead, one in zip(planned, found, strict=True))

    def _one(self, bench: Bench, row: Row, peer: str, run: int) -> None:
        quick = self._results["quick"]
        began = self._now()
        try:
            numbers = row.measure(bench, peer, row.size(peer, quick=quick), run + 1)
        except NotMeasuredError as why:
            self._results.setdefault("skipped", {}).setdefault(row.name, {})[peer] = str(why)
            self._leave_out(row, peer, f"not measured: {why}")
        except BenchmarkError as error:
            # A row that failed once has failed: to run it again would only cost the others their time.
            self._results["failed"].setdefault(row.name, {})[peer] = str(error)
            self._leave_out(row, peer, str(error))
        else:
            lasted = self._now() - began
            self._clock.lasted(row.name, peer, lasted)
            self._seconds.setdefault(row.name, {}).setdefault(peer, []).append(lasted)
            self._rounds.setdefault(row.name, {}).setdefault(peer, []).append(run)
            self._results["rows"].setdefault(row.name, {}).setdefault(peer, []).append(dict(numbers))

    def _leave_out(self, row: Row, peer: str, why: str) -> None:
        self._out.add((row.name, peer))
        self.progress.say(f"{row.name} · {peer}: {why}")

    def _drop(self, group: Group) -> None:
        self.progress.skip(len(group.peers))
        self.progress.say(f"the budget of {span(self._clock.budget)} leaves out {group.row.name}, run {group.run + 1}")

    def results(self) -> Results:
        """Return the measurements, each row with its conditions."""
        taken: dict[str, Taken] = {}
        for row, peers in self._results["rows"].items():
            runs = max(map(len, peers.values()))
            seconds = {peer: round(max(spent), 1) for peer, spent in self._seconds[row].items()}
            taken[row] = {"machine": self._results["machine"], "runs": runs, "seconds": seconds}
            if runs < self.asked[row]:
                taken[row]["asked"] = self.asked[row]
            if gaps := {peer: made for peer, made in self._rounds[row].items() if made != list(range(len(made)))}:
                taken[row]["rounds"] = gaps
        runs = max((how["runs"] for how in taken.values()), default=0)
        return {**self._results, "runs": runs, "taken": taken}
