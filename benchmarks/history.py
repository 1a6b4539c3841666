"""Keeps results between runs: reads and writes them, merges rows measured now into earlier ones, pools and compares.

A row is a mix of two sessions only where all rounds of both are pooled, since ratios are of runs made side by side and
a choice of rounds would be a choice of results; small sizes never mix with full ones.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.facts import HARDWARE
from benchmarks.harness import BenchmarkError
from benchmarks.metrics import is_better, name_of, quantity, ratio
from benchmarks.rows import OURS, Row
from benchmarks.verdicts import Results, Taken, main_metrics, rounds_in, rounds_of, run_ratios, values

_MARGIN, _MARGIN_OF_ONE_RUN = 0.05, 0.2
"""Changes of a median below these are no news, even where runs agree to a hair or where there was only one."""


def load(path: Path) -> Results | None:
    """Return the stored results; None without a file. Raises BenchmarkError for a file of another format."""
    if not path.exists():
        return None
    try:
        kept: Results = json.loads(path.read_text())
    except ValueError as error:
        raise BenchmarkError(f"{path}: not JSON ({error})") from None
    if not isinstance(kept, dict) or not {"machine", "quick", "runs", "rows", "failed"} <= kept.keys():
        raise BenchmarkError(f"{path}: not results of a benchmark")
    return kept


def save(path: Path, results: Results) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")


def taken(results: Results, row: str) -> Taken:
    """Return the conditions of a row's measurement; older files have one entry for all rows."""
    runs = max((len(runs) for runs in results["rows"].get(row, {}).values()), default=0)
    return results.get("taken", {}).get(row) or Taken(machine=results["machine"], runs=runs)


def seconds(results: Results | None) -> dict[tuple[str, str], float]:
    """Return the duration of one run of each row and peer, where it is known."""
    if results is None:
        return {}
    return {
        (row, peer): spent
        for row, how in results.get("taken", {}).items()
        for peer, spent in how.get("seconds", {}).items()
    }


def merge(before: Results, now: Results, rows: Sequence[Row], *, finished: bool = True) -> tuple[Results, list[str]]:
    """The rows of `before`, replaced by those measured now, in the order of `rows`; and what was decided, in words.

    Where `finished` is False (an interrupt, or some of the peers alone), a row does not replace one with more peers.
    Rows that no longer exist are dropped. Raises BenchmarkError when one side has small sizes and the other has not.
    """
    if before["quick"] != now["quick"]:
        raise BenchmarkError("results of --quick and of full sizes are never mixed: choose another --json or --out")
    notes = [f"{name}: no longer a row, dropped" for name in before["rows"] if name not in {r.name for r in rows}]
    merged: Results = {**now, "rows": {}, "failed": {}, "skipped": {}, "taken": {}}
    for row in rows:
        source = now if _measured(now, row.name) else before
        if not finished and source is now and (gone := _unmeasured(before, now, row.name)):
            notes.append(f"{row.name}: earlier numbers kept, since {', '.join(gone)} was not measured now")
            source = before
        _copy(source, merged, row.name)
    return merged, notes


def with_facts(results: Results, facts: dict[str, str]) -> Results:
    """The results, and these facts beside what is known of the machine."""
    known = {**results["machine"], **facts}
    taken = {row: {**how, "machine": known} for row, how in results.get("taken", {}).items()}
    return {**results, "machine": known, "taken": taken}  # type: ignore[typeddict-item]


def pool(first: Results, second: Results) -> Results:
    """All rounds of both, row by row: what was measured twice is known better.

    Raises BenchmarkError where they are of different machines, versions or sizes.
    """
    if first["quick"] != second["quick"] or first["machine"] != second["machine"]:
        raise BenchmarkError("only results of one machine, one version of each peer and one size can be pooled")
    pooled: Results = {**first, "rows": {}, "failed": {}, "skipped": {}, "taken": {}}
    parts = (part for r in (first, second) for part in (r["rows"], r["failed"], r.get("skipped", {})))
    for row in dict.fromkeys(name for part in parts for name in part):
        _copy(first, pooled, row)
        _copy(second, pooled, row)
        if row in first["rows"] and row in second["rows"]:
            offset = 1 + max(rounds_of(first, row), default=-1)
            runs: dict[str, list[dict[str, float]]] = {}
            rounds: dict[str, list[int]] = {}
            for results, later in ((first, 0), (second, offset)):
                for peer, made in results["rows"][row].items():
                    runs.setdefault(peer, []).extend(made)
                    rounds.setdefault(peer, []).extend(later + n for n in rounds_in(results, row, peer))
            pooled["rows"][row] = runs
            # A run lasts as long as before, which the next budget wants to know.
            how = Taken(
                {**taken(first, row), **taken(second, row), "runs": max(map(len, runs.values())), "rounds": rounds}
            )
            how.pop("asked", None)
            pooled.setdefault("taken", {})[row] = how
    pooled.pop("changes", None)  # were those of the first alone
    pooled["runs"] = max((len(runs) for peers in pooled["rows"].values() for runs in peers.values()), default=0)
    return pooled


def _measured(results: Results, row: str) -> bool:
    return row in results["rows"] or row in results["failed"] or row in results.get("skipped", {})


def _unmeasured(before: Results, now: Results, row: str) -> list[str]:
    answered = {*now["rows"].get(row, {}), *now["failed"].get(row, {}), *now.get("skipped", {}).get(row, {})}
    return [peer for peer in before["rows"].get(row, {}) if peer not in answered]


def _copy(source: Results, target: Results, row: str) -> None:
    if row in source["rows"]:
        target["rows"][row] = source["rows"][row]
        target.setdefault("taken", {})[row] = taken(source, row)
    if row in source["failed"]:
        target["failed"][row] = source["failed"][row]
    if row in source.get("skipped", {}):
        target.setdefault("skipped", {})[row] = source.get("skipped", {})[row]


@dataclass(frozen=True)
class Change:
    """A median of ours, or its ratio to a peer's, that left the spread it had last time."""

    row: str
    metric: str
    peer: str
    """Empty for an absolute number."""
    before: float
    now: float
    before_spread: tuple[float, float]
    now_spread: tuple[float, float]
    versions: str = ""

    @property
    def better(self) -> bool:
        return is_better(self.metric, self.now, self.before)

    def __str__(self) -> str:
        word = _word(self.metric, better=self.better)
        compared = f" of {self.peer}'s" if self.peer else ""
        versions = f" [{self.versions}]" if self.versions else ""
        return (
            f"{word} than last time: {self.row}, {name_of(self.metric)} {self._said(self.before, self.before_spread)}"
            f" → {self._said(self.now, self.now_spread)}{compared}{versions}"
        )

    def _said(self, median: float, spread: tuple[float, float]) -> str:
        low, middle, high = (
            ratio(value) if self.peer else quantity(self.metric, value) for value in (spread[0], median, spread[1])
        )
        return f"{middle} ({low} to {high})"


def _word(metric: str, *, better: bool) -> str:
    if metric.startswith("bytes") or metric.endswith("_mb"):
        return "smaller" if better else "larger"
    return "faster" if better else "slower"


def compare(before: Results | None, now: Results, rows: Sequence[Row]) -> list[Change]:
    """Return the changes beyond the spread since the last report, regressions first.

    Where a row has a bar against a peer, the ratio is compared, so that another machine or a busy one does not look
    like a regression; other numbers are compared only on the same hardware.
    """
    if before is None or before["quick"] != now["quick"]:
        return []
    found = [change for row in rows for change in _changes(before, now, row)]
    return sorted(found, key=lambda change: change.better)


def _changes(before: Results, now: Results, row: Row) -> Iterator[Change]:
    ours = {bar.ours for bar in row.bars} | {OURS}
    against = {(bar.metric, bar.against, bar.ours) for bar in row.bars if bar.against}
    versions = _versions(before, now, row.name)
    for metric, peer, mine in sorted(against):
        was, is_ = (run_ratios(results, row.name, metric, mine, peer) for results in (before, now))
        yield from _change(row, metric, peer, was, is_, versions.get(peer.partition("+")[0], ""))
    if not _same_hardware(before, now, row.name):
        return
    compared = {metric for metric, _, _ in against}
    for metric in main_metrics(row, now):
        for mine in sorted(ours):
            if metric not in compared:
                was, is_ = values(before, row.name, mine, metric), values(now, row.name, mine, metric)
                yield from _change(row, metric, "", was, is_, "")


def _change(
    row: Row, metric: str, peer: str, was: Sequence[float], is_: Sequence[float], versions: str
) -> Iterator[Change]:
    if not was or not is_:
        return
    a, b = statistics.median(was), statistics.median(is_)
    margin = _MARGIN if min(len(was), len(is_)) > 1 else _MARGIN_OF_ONE_RUN
    beyond = min(is_) > max(was) or max(is_) < min(was)
    if beyond and abs(b - a) > margin * abs(a):
        yield Change(row.name, metric, peer, a, b, (min(was), max(was)), (min(is_), max(is_)), versions)


def _versions(before: Results, now: Results, row: str) -> Mapping[str, str]:
    was, is_ = taken(before, row)["machine"], taken(now, row)["machine"]
    return {
        name: f"{name} {was[name]} → {version}"
        for name, version in is_.items()
        if name in was and was[name] != version and name not in HARDWARE
    }


def _same_hardware(before: Results, now: Results, row: str) -> bool:
    was, is_ = taken(before, row)["machine"], taken(now, row)["machine"]
    return all(was.get(name) == is_.get(name) for name in HARDWARE)
