"""What the smaller studies (real, transports, pythons) share: options, interleaved runs, results, the exit status.

A study is a list of rows and a bench that knows how to start its peers; measuring is the rows' business and rendering
the report's. Results have the shape of the report's own, so that it shows them as a section.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import history
from benchmarks.facts import machine
from benchmarks.harness import Bench, BenchmarkError, NotMeasured
from benchmarks.report import render_table
from benchmarks.rows import Row
from benchmarks.verdicts import Results, summarise


@dataclass(frozen=True)
class Study:
    """`open` makes the bench that all rows share; `facts` adds to what is said about the machine."""

    module: str
    title: str
    rows: Sequence[Row]
    open: Callable[[], AbstractContextManager[Bench]]
    facts: Callable[[], dict[str, str]] = dict


def main(study: Study, argv: list[str] | None = None) -> int:
    """Exit status: 0 when every measured bar holds, 1 when one is missed, 2 when a run could not be trusted."""
    options = _options(study, argv)
    if options.list:
        for row in study.rows:
            print(f"{row.name:24} {row.title} ({', '.join(row.peers)})")
        return 0
    chosen = [row for row in study.rows if not options.rows or row.name in options.rows]
    if unknown := set(options.rows) - {row.name for row in study.rows}:
        print(f"no such row: {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        before = history.load(options.json) if options.json and options.keep else None
        results = measured(study, chosen, options.runs, options.peers, quick=options.quick)
        if before is not None:
            results, notes = history.merge(before, results, study.rows)
            print(*notes, sep="\n", file=sys.stderr)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    verdicts = summarise(results, [row for row in study.rows if row.name in results["rows"]])
    print(render_table(verdicts, results))
    if options.json:
        history.save(options.json, results)
    if results["failed"]:
        return 2
    return 1 if any(verdict.holds is False for verdict in verdicts) else 0


def measured(study: Study, rows: Sequence[Row], runs: int, peers: Sequence[str] | None, *, quick: bool) -> Results:
    """Every row of every peer, A B A B; an interrupt ends it early with what there is."""
    results: Results = {
        "machine": {**machine(), **study.facts()}, "quick": quick, "runs": runs, "rows": {}, "failed": {},
        "skipped": {}, "taken": {},
    }  # fmt: skip
    steps = [(row, run, peer) for row in rows for run in range(runs) for peer in peers or row.peers]
    began = time.monotonic()
    with study.open() as bench:
        try:
            for number, (row, run, peer) in enumerate(steps, 1):
                what = f"[{number}/{len(steps)}] {row.name} · {peer} · run {run + 1}"
                print(f"{what}  ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
                _take(bench, row, peer, run, results)
        except KeyboardInterrupt:
            print("interrupted: reporting what was measured", file=sys.stderr)
    return results


def _take(bench: Bench, row: Row, peer: str, run: int, results: Results) -> None:
    try:
        numbers = row.measure(bench, peer, row.size(peer, quick=results["quick"]), run + 1)
    except NotMeasured as reason:
        results.setdefault("skipped", {}).setdefault(row.name, {})[peer] = str(reason)
        print(f"{row.name} · {peer}: {reason}", file=sys.stderr)
    except BenchmarkError as error:
        results["failed"].setdefault(row.name, {})[peer] = str(error)
        print(f"{row.name} · {peer}: {error}", file=sys.stderr)
    else:
        results["rows"].setdefault(row.name, {}).setdefault(peer, []).append(dict(numbers))
        results.setdefault("taken", {})[row.name] = {"machine": results["machine"], "runs": run + 1}


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _options(study: Study, argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{study.module}", description=study.title)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows (default: all; see --list)")
    parser.add_argument("--list", action="store_true", help="show the rows and their peers")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check that everything runs, no evidence")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row and peer (default: 3)")
    parser.add_argument("--peers", nargs="*", help="these peers instead of a row's own")
    parser.add_argument("--json", type=Path, help="write the raw results there")
    parser.add_argument("--keep", action="store_true", help="keep the rows in --json that this run does not measure")
    return parser.parse_args(argv)
