"""Runs the rows side by side and writes what they show: `python -m benchmarks --help`.

Runs are interleaved (A B A B …) so that a machine that slows down slows everybody. A row that cannot be trusted fails
loudly; a row that misses its bar is reported as missed; what the budget left out is said.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import history
from benchmarks.facts import machine
from benchmarks.harness import HERE, Bench, BenchmarkError, NotMeasured
from benchmarks.progress import Progress, span
from benchmarks.report import headroom_lines, ratios_table, row_lines
from benchmarks.rows import ROWS, Row
from benchmarks.schedule import Clock, Group, groups, runs_of
from benchmarks.tables import plain
from benchmarks.verdicts import Results, Taken, headrooms, ratios, summarise
from benchmarks.written import write_all


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 when every measured bar holds, 1 when one is missed, 2 when a run could not be trusted.

    130 after an interrupt, whatever was measured by then.
    """
    options = _options(argv)
    if options.list:
        print(plain([[row.name, row.title, ", ".join(row.peers)] for row in ROWS]))
        return 0
    if unknown := set(options.rows) - {row.name for row in ROWS}:
        print(f"no such row: {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    try:
        return _run([row for row in ROWS if not options.rows or row.name in options.rows], options)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2


def _run(chosen: Sequence[Row], options: argparse.Namespace) -> int:
    path: Path = options.json or options.out / "results.json"
    before = history.load(path)
    if options.render:
        return _render_only(before, path, options)
    if options.keep and before is not None and before["quick"] != options.quick:
        raise BenchmarkError(f"{path} has other sizes: results of --quick and of full sizes are never mixed")
    signal.signal(signal.SIGTERM, _interrupt)
    measured, finished = measure(
        chosen, options.runs, options.peers, options.budget * 60, before, quick=options.quick, opened=Bench
    )
    changes = [str(change) for change in history.compare(before, measured, chosen)]
    _print(measured, chosen, changes, finished=finished)
    results, rows = measured, list(chosen)
    whole = not options.rows and not options.peers
    if before is not None and before["quick"] == options.quick and (options.keep or (whole and not finished)):
        results, notes = history.merge(before, measured, ROWS, finished=finished and not options.peers)
        rows = list(ROWS)
        print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    if before is not None and before["quick"] == options.quick:
        results["changes"] = changes
    if options.json or options.report or options.keep or (whole and not options.quick):
        path.parent.mkdir(parents=True, exist_ok=True)
        history.save(path, results)
        print(f"wrote {path}")
    if options.report or (whole and not options.quick):
        write_all(results, rows, options.out)
    return _status(measured, chosen) if finished else 130


def _render_only(kept: Results | None, path: Path, options: argparse.Namespace) -> int:
    if kept is None:
        raise BenchmarkError(f"{path} is not there: nothing to render")
    _print(kept, ROWS, kept.get("changes", []), finished=True)
    write_all(kept, ROWS, options.out)
    return _status(kept, ROWS)


def _status(results: Results, rows: Sequence[Row]) -> int:
    if results["failed"]:
        return 2
    return 1 if any(verdict.holds is False for verdict in summarise(results, rows)) else 0


def measure(
    rows: Sequence[Row], runs: int | None, peers: Sequence[str] | None, budget: float,
    before: Results | None = None, *, quick: bool, opened: Callable[[], Bench],
    now: Callable[[], float] = time.monotonic,
) -> tuple[Results, bool]:  # fmt: skip
    """Measure the rows, round by round, within `budget` seconds; and whether it came to its end.

    An interrupt ends it early with what there is.
    """
    plan = groups(rows, runs, peers)
    usable = before if before is not None and before["quick"] == quick else None
    session = _Session(quick, Clock(budget, history.seconds(usable)), now, sum(len(group.peers) for group in plan))
    for group in plan:
        session.asked[group.row.name] = runs_of(group.row, runs)
    finished = True
    bench: Bench | None = None
    with session.progress:
        try:
            bench = opened()
            session.prepare(bench, dict.fromkeys(peer for group in plan for peer in group.peers))
            session.all(bench, plan)
        except KeyboardInterrupt:
            finished = False
            session.progress.say("interrupted: reporting what was measured")
        finally:
            if bench is not None:
                bench.close()
    return session.results(), finished


class _Session:
    """What one call measures: the results as they grow, the clock, and who is out."""

    def __init__(self, quick: bool, clock: Clock, now: Callable[[], float], steps: int) -> None:
        self._results: Results = {
            "machine": machine(), "quick": quick, "runs": 0, "rows": {}, "failed": {}, "skipped": {}, "taken": {},
        }  # fmt: skip
        self._clock = clock
        self._done = 0
        self._seconds: dict[str, dict[str, list[float]]] = {}
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
            except NotMeasured:
                continue
            except BenchmarkError as error:
                self.progress.say(f"{peer}: {error}")
        self._began = self._now()

    def all(self, bench: Bench, plan: Sequence[Group]) -> None:
        for n, group in enumerate(plan):
            spent = self._now() - self._began
            if not self._clock.fits(group, spent, self._out):
                self._drop(group)
                continue
            for at, peer in enumerate(group.peers):
                if (group.row.name, peer) in self._out:
                    self.progress.skip(1)
                    continue
                spent = self._now() - self._began
                rest = Group(group.row, group.run, group.peers[at:])
                left = self._clock.cost(rest, self._out)
                left += self._clock.left(plan[n + 1 :], spent + left, self._out)
                self.progress.step(self._done, f"{group.row.name} · {peer} · run {group.run + 1}", spent, left)
                self._one(bench, group.row, peer, group.run)
                self._done += 1

    def _one(self, bench: Bench, row: Row, peer: str, run: int) -> None:
        quick = self._results["quick"]
        began = self._now()
        try:
            numbers = row.measure(bench, peer, row.size(peer, quick=quick), run + 1)
        except NotMeasured as why:
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
            self._results["rows"].setdefault(row.name, {}).setdefault(peer, []).append(dict(numbers))

    def _leave_out(self, row: Row, peer: str, why: str) -> None:
        self._out.add((row.name, peer))
        self.progress.say(f"{row.name} · {peer}: {why}")

    def _drop(self, group: Group) -> None:
        self.progress.skip(len(group.peers))
        self.progress.say(f"the budget of {span(self._clock.budget)} leaves out {group.row.name}, run {group.run + 1}")

    def results(self) -> Results:
        """What was measured, each row with how it came about."""
        taken: dict[str, Taken] = {}
        for row, peers in self._results["rows"].items():
            runs = max(map(len, peers.values()))
            seconds = {peer: round(max(spent), 1) for peer, spent in self._seconds[row].items()}
            taken[row] = {"machine": self._results["machine"], "runs": runs, "seconds": seconds}
            if runs < self.asked[row]:
                taken[row]["asked"] = self.asked[row]
        runs = max((how["runs"] for how in taken.values()), default=0)
        return {**self._results, "runs": runs, "taken": taken}


def _print(results: Results, rows: Sequence[Row], changes: Sequence[str], *, finished: bool) -> None:
    known = {*results["rows"], *results["failed"], *results.get("skipped", {})}
    shown = [row for row in rows if row.name in known]
    if found := list(ratios(results, shown)):
        print(plain(ratios_table(found)), end="\n\n")
    said = row_lines(results, shown, rows)
    said += headroom_lines(headrooms(results, shown))
    said += [
        f"{row}: {how['runs']} of {how['asked']} runs were made"
        for row, how in results.get("taken", {}).items()
        if "asked" in how
    ]
    if not finished and (left := [row.name for row in rows if row.name not in known]):
        said.append(f"not measured: {', '.join(left)}")
    print(*said, *changes, sep="\n")


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=(__doc__ or "").splitlines()[0],
        epilog="All rows at full size write results.json, report.md, plots/ and the table of README.md; anything else "
        "only prints, unless --report, --keep or --json says so.",
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows (default: all; see --list)")
    parser.add_argument("--list", action="store_true", help="show the rows and their peers")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check that everything runs, no evidence")
    parser.add_argument("--runs", type=_positive, help="runs of each row and peer (default: what each row says)")
    parser.add_argument("--peers", nargs="*", help="these peers instead of a row's own")
    parser.add_argument(
        "--budget", type=float, default=20.0, metavar="MINUTES",
        help="leave out later runs of rows that would take longer, and say so (default: 20)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="where the report goes (default: here)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the raw results (default: results.json in --out)")
    parser.add_argument("--keep", action="store_true", help="keep the rows there that this run does not measure")
    parser.add_argument("--report", action="store_true", help="write the report, whatever was measured")
    parser.add_argument("--render", action="store_true", help="measure nothing: write the report of the kept results")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
