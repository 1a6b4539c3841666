"""Turns raw results into medians, ratios and verdicts, and writes them into the README between its markers.

Nothing here measures; a missed bar is printed as missed.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from benchmarks.harness import HERE, BenchmarkError
from benchmarks.rows import Bar, Row

UNITS = {
    "cpu_us": ("CPU", "µs"),
    "bytes": ("memory per object", "B"),
    "bytes_unsettled": ("memory per object, unsettled", "B"),
    "rss_mb": ("RSS", "MB"),
    "empty_rss_mb": ("RSS when empty", "MB"),
    "wall_s": ("wall", "s"),
    "wall_ms": ("wall", "ms"),
    "cpu_ms": ("CPU", "ms"),
    "cpu_ms_per_s": ("CPU per second", "ms"),
    "p50_ms": ("event to reconcile p50", "ms"),
    "p99_ms": ("event to reconcile p99", "ms"),
    "server_cpu_us": ("the server's CPU", "µs"),
    "requests_per_update": ("writes per update", ""),
    "exec_ms": ("wall from exec", "ms"),
    "start_ms": ("wall from start", "ms"),
    "start_cpu_ms": ("CPU from start", "ms"),
    "again_ms": ("wall of a second start", "ms"),
    "per_s": ("per second", ""),
    "per_cpu_s": ("per second of CPU", ""),
    **{f"{verb}_{at}_ms": (f"{verb} {at}", "ms") for verb in ("get", "list") for at in ("p50", "p99")},
    **{f"{verb}_cpu_us": (f"CPU of a {verb}", "µs") for verb in ("get", "list")},
    **{f"pod_{size}_ms": (f"CPU per Pod, {size}", "ms") for size in ("small", "middle", "large")},
    **{f"wall_{size}_s": (f"wall, {size}", "s") for size in ("small", "middle", "large")},
    "latency_p50_ms": ("answered, p50", "ms"),
    "latency_p99_ms": ("answered, p99", "ms"),
    "growth": ("CPU per Pod, large ÷ small", ""),
}
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


class Results(TypedDict):
    machine: dict[str, str]
    quick: bool
    runs: int
    rows: dict[str, dict[str, list[dict[str, float]]]]
    failed: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Verdict:
    """One bar: what was measured, what was asked. `holds` is None when one side has no numbers."""

    row: Row
    bar: Bar
    ours: float | None
    theirs: float | None
    ratio: float | None
    spread: tuple[float, float] | None

    @property
    def holds(self) -> bool | None:
        return None if self.ratio is None else self.ratio <= self.bar.limit


def machine() -> dict[str, str]:
    """What the numbers depend on; no host name and no path."""
    model = next((v for k, v in _cpuinfo() if k == "model name"), platform.machine())
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) / 1e6
    go_mod = (HERE / "peers/controller-runtime/go.mod").read_text()
    return {
        "CPU": f"{model}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "controller-runtime": _version(go_mod, "sigs.k8s.io/controller-runtime"),
        "client-go": _version(go_mod, "k8s.io/client-go"),
        **{name: _distribution(name) for name in ("kopf", "msgspec", "pyreqwest", "aiohttp", "zstandard", "uvloop")},
    }


def _cpuinfo() -> list[tuple[str, str]]:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        pairs = (line.partition(":") for line in file)
        return [(key.strip(), value.strip()) for key, _, value in pairs]


def _version(go_mod: str, module: str) -> str:
    found = re.search(rf"{re.escape(module)} (v\S+)", go_mod)
    return found.group(1) if found else "unknown"


def _distribution(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def summarise(results: Results, rows: Sequence[Row]) -> list[Verdict]:
    """The verdict on every bar of the rows, by medians; the spread is that of the ratio run by run."""
    return [_verdict(results, row, bar) for row in rows for bar in row.bars]


def _verdict(results: Results, row: Row, bar: Bar) -> Verdict:
    ours = _values(results, row.name, bar.ours, bar.metric)
    theirs = _values(results, row.name, bar.against, bar.metric) if bar.against else [1.0] * len(ours)
    if not ours or not theirs:
        return Verdict(row, bar, None, None, None, None)
    a, b = statistics.median(ours), statistics.median(theirs)
    each = [x / y for x, y in zip(ours, theirs, strict=False)]
    return Verdict(row, bar, a, b, a / b, (min(each), max(each)))


def _values(results: Results, row: str, peer: str, metric: str) -> list[float]:
    return [run[metric] for run in results["rows"].get(row, {}).get(peer, [])]


def render_table(summary: Sequence[Verdict], results: Results) -> str:
    """Markdown: the bars first, then every number."""
    lines = ["| row | measured | ours | peer | ratio (spread) | bar | |", "|---|---|---|---|---|---|---|"]
    for v in summary:
        name, unit = UNITS[v.bar.metric]
        if v.ratio is None or v.spread is None:
            lines.append(f"| {v.row.name} | {name} | | {v.bar.against} | not measured | {_limit(v.bar)} | — |")
            continue
        peer = f"{_number(v.theirs)} {unit} ({v.bar.against})" if v.bar.against else ""
        ratio = f"{_ratio(v.ratio)} ({_ratio(v.spread[0])} to {_ratio(v.spread[1])})" if v.bar.against else ""
        verdict = "holds" if v.holds else "**missed**"
        lines.append(
            f"| {v.row.name} | {name} | {_number(v.ours)} {unit} | {peer} | {ratio} | {_limit(v.bar)} | {verdict} |"
        )
    lines += ["", "Every number (median, and smallest to largest of the runs):", ""]
    lines += ["| row | peer | numbers |", "|---|---|---|"]
    for row, peers in results["rows"].items():
        for peer, runs in peers.items():
            parts = []
            for metric in runs[0]:
                name, unit = UNITS.get(metric, (metric, ""))
                values = [run[metric] for run in runs]
                if any(values):
                    spread = f" ({_number(min(values))} to {_number(max(values))})" if len(values) > 1 else ""
                    parts.append(f"{name} {_number(statistics.median(values))} {unit}{spread}".replace("  ", " "))
            lines.append(f"| {row} | {peer} | {'; '.join(parts)} |")
    for row, peers in results["failed"].items():
        for peer, why in peers.items():
            lines.append(f"| {row} | {peer} | **could not be measured**: {why.splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def _limit(bar: Bar) -> str:
    if not bar.against:
        return f"≤ {_number(bar.limit)} {UNITS[bar.metric][1]}"
    return f"≤ 1/{1 / bar.limit:.0f}" if bar.limit < 0.19 or bar.against.startswith("kopf") else f"≤ {bar.limit:g}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"1/{1 / value:.0f}" if value > 0 else f"{value:.2f}"


def update_readme(path: Path, table: str, results: Results) -> None:
    """Replace what stands between the markers. Raises BenchmarkError when the markers are gone."""
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise BenchmarkError(f"{path.name} has lost its markers {BEGIN} and {END}")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    facts = "; ".join(f"{name}: {value}" for name, value in results["machine"].items())
    note = "Small sizes (--quick): no evidence.\n\n" if results["quick"] else ""
    path.write_text(
        f"{head}{BEGIN}\n\n{note}Measured on: {facts}. {results['runs']} interleaved runs.\n\n{table}\n{END}{tail}"
    )
