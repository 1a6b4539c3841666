"""Shared parts of the smaller studies (real, transports, pythons, webhook, embedded): options, report, exit status.

A study is a list of rows and a bench that knows how to start its peers. It is measured as the benchmark itself is,
round by round within a budget, and its results have the shape of the report's own, which shows them as a section.
"""

from __future__ import annotations

import argparse
import functools
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import history
from benchmarks.harness import HERE, Bench, BenchmarkError, NotMeasuredError
from benchmarks.report import render_table, update_readme
from benchmarks.rows import Numbers, Row, Size
from benchmarks.schedule import Clock, groups, plan_table
from benchmarks.session import measure
from benchmarks.tables import plain
from benchmarks.verdicts import summarise
from steersman.testing import BinariesNotFoundError, ComponentError

BUDGET = 12.0
"""Minutes of a study, so that all of them and the flame graph take less than three quarters of an hour."""


Measure = Callable[[Bench, str, Size, int], Numbers]


class Alone(Bench):
    """A bench for rows that start their own processes: no server, and nothing to build."""

    def __init__(self) -> None:
        """Starts nothing."""
        self.baselines = {}

    def prepare(self, peer: str) -> None:
        """A row builds what it needs."""

    def close(self) -> None:
        """Nothing was opened."""


def told(measure: Measure) -> Measure:
    """A row's measurement whose connections, servers and time limits may fail: such a run could not be trusted.

    Without the binaries of a control plane it is not measured.
    """

    @functools.wraps(measure)
    def measured(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
        try:
            return measure(bench, peer, size, seed)
        except (ExceptionGroup, OSError, BinariesNotFoundError, ComponentError) as error:
            first: Exception = error
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            kind = NotMeasuredError if isinstance(first, BinariesNotFoundError) else BenchmarkError
            raise kind(str(first) or type(first).__name__) from error

    return measured


@dataclass(frozen=True)
class Study:
    """`opened` makes the bench that all rows share; `facts` adds to what is said about the machine.

    `page` is a file of its own with the markers that `update_readme` looks for.
    """

    module: str
    title: str
    rows: Sequence[Row]
    opened: Callable[[], Bench] = Alone
    facts: Callable[[], dict[str, str]] = dict
    page: Path | None = None

    @property
    def kept(self) -> Path:
        """The file that the report reads, and that the whole study at full size writes by default."""
        return HERE / f"{self.module}.json"


def main(study: Study, argv: list[str] | None = None) -> int:
    """Exit status: 0 when every measured bar holds, 1 when one is missed, 2 when a run could not be trusted.

    130 after an interrupt, whatever was measured by then.
    """
    options = _options(study, argv)
    if options.list:
        for row in study.rows:
            print(f"{row.name:24} {row.title} ({', '.join(row.peers)})")
        return 0
    if unknown := set(options.rows) - {row.name for row in study.rows}:
        print(f"no such row: {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    if options.plan:
        chosen = [row for row in study.rows if not options.rows or row.name in options.rows]
        clock = Clock(options.budget * 60, history.seconds(history.load(options.json or study.kept)))
        print(plain(plan_table(groups(chosen, options.runs, options.peers), clock)))
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _measured(study, options)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2


def _measured(study: Study, options: argparse.Namespace) -> int:
    chosen = [row for row in study.rows if not options.rows or row.name in options.rows]
    before = history.load(options.json) if options.json and options.keep else None
    if before is not None and before["quick"] != options.quick:
        raise BenchmarkError(f"{options.json} has other sizes: results of --quick and of full sizes are never mixed")
    now, finished = measure(
        chosen, options.runs, options.peers, options.budget * 60, before, quick=options.quick, opened=study.opened
    )
    results = history.with_facts(now, study.facts())
    if before is not None:
        results, notes = history.merge(before, results, study.rows, finished=finished and not options.peers)
        print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    verdicts = summarise(results, [row for row in study.rows if row.name in results["rows"]])
    table = render_table(verdicts, results)
    print(table)
    whole = finished and not (options.rows or options.peers or options.quick)
    # A machine without the servers or tools of a study keeps the results of another one.
    if target := options.json or (study.kept if whole and results["rows"] else None):
        history.save(target, results)
        print(f"wrote {target}")
    if study.page is not None and options.report and not options.quick:
        update_readme(study.page, table, results)
    if not finished:
        return 130
    if results["failed"]:
        return 2
    return 1 if any(verdict.holds is False for verdict in verdicts) else 0


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _options(study: Study, argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{study.module}", description=study.title)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows (default: all; see --list)")
    parser.add_argument("--list", action="store_true", help="show the rows and their peers")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check that everything runs, no evidence")
    parser.add_argument("--runs", type=int, help="runs of each row and peer (default: what each row says)")
    parser.add_argument("--peers", nargs="*", help="these peers instead of a row's own")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, metavar="MINUTES",
        help=f"leave out later runs of rows that would take longer, and say so (default: {BUDGET:g})",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=Path, metavar="FILE",
        help=f"write the raw results there (default: {study.kept.name}, for all rows at full size)",
    )  # fmt: skip
    parser.add_argument("--plan", action="store_true", help="measure nothing: show the planned runs and their seconds")
    parser.add_argument("--keep", action="store_true", help="keep the rows in --json that this run does not measure")
    if study.page is not None:
        parser.add_argument("--report", action="store_true", help=f"write the table into {study.page.name}, too")
    return parser.parse_args(argv)
