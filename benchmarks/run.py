"""Runs the rows side by side and writes what they show: `python -m benchmarks --help`.

Runs are interleaved (A B A B …) so that a machine that slows down slows everybody. What the planned rounds leave of the
budget goes to the closest calls. A row that cannot be trusted fails loudly; a row that misses its bar is reported as
missed; what the budget left out is said.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import history
from benchmarks.facts import ours
from benchmarks.harness import HERE, Bench, BenchmarkError
from benchmarks.report import headroom_lines, ratios_table, row_lines
from benchmarks.rows import OURS, ROWS, Row
from benchmarks.schedule import Clock, groups, plan_table
from benchmarks.session import measure
from benchmarks.tables import plain
from benchmarks.verdicts import Results, headrooms, ratios, summarise
from benchmarks.written import write_all

BUDGET = 29.0
"""Minutes of measuring once the peers are built: with the rows of a real server, start and report less than 45."""


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
    if options.plan:
        clock = Clock(options.budget * 60, history.seconds(before))
        print(plain(plan_table(groups(chosen, options.runs, options.peers), clock)))
        return 0
    if options.render or options.pool:
        return _render_only(_pooled(before, options.pool, path), path, options)
    if options.keep and before is not None and before["quick"] != options.quick:
        raise BenchmarkError(f"{path} has other sizes: results of --quick and of full sizes are never mixed")
    signal.signal(signal.SIGTERM, _interrupt)
    whole = not options.rows and not options.peers
    # That everything runs is shown by running it once.
    runs = options.runs or (1 if options.quick else None)
    measured, finished = measure(
        chosen, runs, options.peers, options.budget * 60, before, quick=options.quick, opened=Bench,
        surer=(whole or options.report) and runs is None,
    )  # fmt: skip
    if any(OURS in peers for peers in measured["rows"].values()):
        measured = history.with_facts(measured, ours())
    changes = [str(change) for change in history.compare(before, measured, chosen)]
    _print(measured, chosen, changes, finished=finished)
    results, rows = measured, list(chosen)
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


def _pooled(kept: Results | None, others: Sequence[Path], path: Path) -> Results | None:
    for other in others:
        more = history.load(other)
        if kept is None or more is None:
            raise BenchmarkError(f"{path if kept is None else other} is not there: nothing to pool")
        kept = history.pool(kept, more)
    if others and kept is not None:
        history.save(path, kept)
    return kept


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
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, once: shows that everything runs, no evidence"
    )
    parser.add_argument(
        "--runs",
        type=_positive,
        help="exactly so many of each row and peer (default: as rows say, and more "
        "of those that are closest to their bar)",
    )
    parser.add_argument("--peers", nargs="*", help="these peers instead of a row's own")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, metavar="MINUTES",
        help="what the planned rounds leave of it goes to the closest calls; planned runs that would take longer are "
        f"left out, and that is said (default: {BUDGET:g})",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="where the report goes (default: here)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the raw results (default: results.json in --out)")
    parser.add_argument("--plan", action="store_true", help="measure nothing: show the planned runs and their seconds")
    parser.add_argument("--keep", action="store_true", help="keep the rows there that this run does not measure")
    parser.add_argument("--report", action="store_true", help="write the report, whatever was measured")
    parser.add_argument("--render", action="store_true", help="measure nothing: write the report of the kept results")
    parser.add_argument(
        "--pool", nargs="+", type=Path, default=[], metavar="FILE",
        help="measure nothing: add all rounds of these results to the kept ones, and write the report",
    )  # fmt: skip
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
