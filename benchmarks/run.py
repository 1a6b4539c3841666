"""Runs the rows side by side and writes what they show: `python -m benchmarks --help`.

Runs are interleaved (A B A B …) so that a machine that slows down slows everybody. A row that cannot be trusted
fails loudly; a row that misses its bar is reported as missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from benchmarks.harness import Bench, BenchmarkError
from benchmarks.report import Results, machine, render_table, summarise, update_readme
from benchmarks.rows import ROWS, Row

HERE = Path(__file__).resolve().parent


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 when every measured bar holds, 1 when one is missed, 2 when a run could not be trusted."""
    options = _options(argv)
    if options.list:
        for row in ROWS:
            print(f"{row.name:18} {row.title}")
        return 0
    chosen = [row for row in ROWS if not options.rows or row.name in options.rows]
    unknown = set(options.rows or ()) - {row.name for row in ROWS}
    if unknown:
        print(f"no such row: {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    results = _measure(chosen, options)
    if options.keep and options.json and options.json.exists():
        results = _merged(json.loads(options.json.read_text()), results)
        chosen = list(ROWS)
    summary = summarise(results, chosen)
    table = render_table(summary, results)
    print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.report:
        update_readme(HERE / "README.md", table, results)
    if results["failed"]:
        return 2
    return 1 if any(verdict.holds is False for verdict in summary) else 0


def _measure(rows: list[Row], options: argparse.Namespace) -> Results:
    results: Results = {"machine": machine(), "quick": options.quick, "runs": options.runs, "rows": {}, "failed": {}}
    steps = [(row, run, peer) for row in rows for run in range(options.runs) for peer in _peers(row, options.peers)]
    started = time.monotonic()
    bench = Bench()
    try:
        for step, (row, run, peer) in enumerate(steps, 1):
            _progress(f"[{step}/{len(steps)}] {row.name} · {peer} · run {run + 1}", started)
            try:
                numbers = row.measure(bench, peer, row.size(peer, quick=options.quick), run + 1)
            except BenchmarkError as error:
                results["failed"].setdefault(row.name, {})[peer] = str(error)
                print(f"\n{row.name} · {peer}: {error}", file=sys.stderr)
            else:
                results["rows"].setdefault(row.name, {}).setdefault(peer, []).append(dict(numbers))
    except KeyboardInterrupt:
        print("\ninterrupted: reporting what was measured", file=sys.stderr)
    finally:
        bench.close()
        _progress("", started)
    return results


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _merged(before: Results, now: Results) -> Results:
    """The rows of an earlier run, replaced by those that were measured now; small sizes never mix with full ones."""
    if before["quick"] != now["quick"]:
        return now
    failed = {row: peers for row, peers in before["failed"].items() if row not in now["rows"]}
    return {**now, "rows": {**before["rows"], **now["rows"]}, "failed": {**failed, **now["failed"]}}


def _peers(row: Row, wanted: list[str] | None) -> list[str]:
    return list(wanted) if wanted else list(row.peers)


def _progress(text: str, started: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}" + (f"  ({time.monotonic() - started:.0f} s)" if text else ""))
        sys.stderr.flush()
    elif text:
        print(text, file=sys.stderr, flush=True)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows (default: all; see --list)")
    parser.add_argument("--list", action="store_true", help="show the rows")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check that everything runs, no evidence")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row and peer (default: 3)")
    parser.add_argument(
        "--peers", nargs="*", help="these peers instead of a row's own, such as rooms or steersman+asyncio"
    )
    parser.add_argument("--json", type=Path, help="write the raw results there")
    parser.add_argument("--keep", action="store_true", help="keep the rows in --json that this run does not measure")
    parser.add_argument("--report", action="store_true", help="write the table into benchmarks/README.md")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
