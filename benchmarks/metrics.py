"""The metrics of the rows: names, units and formats.

A row may report a metric that is not listed here: it is then shown under its own name, without a unit. A metric that
carries a bar is always listed.
"""

from __future__ import annotations

STALLED = "stalled_pct"
"""Which part of a run the host kept its cores from running: see `stalls`."""
UNITS: dict[str, tuple[str, str]] = {
    "cpu_us": ("CPU", "µs"),
    "bytes": ("memory per object", "B"),
    "bytes_unsettled": ("memory per object, unsettled", "B"),
    "bytes_peak": ("peak memory per object", "B"),
    "rss_mb": ("RSS", "MB"),
    "pss_mb": ("PSS", "MB"),
    "peak_mb": ("peak RSS", "MB"),
    "growth_mb": ("RSS grown by", "MB"),
    "empty_rss_mb": ("RSS when empty", "MB"),
    "wall_s": ("wall", "s"),
    "wall_ms": ("wall", "ms"),
    "cpu_ms": ("CPU", "ms"),
    "cpu_ms_per_s": ("CPU per second", "ms"),
    "wakeups_per_min": ("wake-ups per minute", ""),
    "total_cpu_ms": ("CPU in all", "ms"),
    "total_mb": ("memory in all", "MB"),
    "peak_over_mb": ("peak over steady", "MB"),
    "peak_over_bytes": ("peak over steady per object", "B"),
    "peak_ratio": ("peak ÷ steady", ""),
    "steady_mb": ("steady RSS", "MB"),
    "shutdown_ms": ("shutdown", "ms"),
    "shutdown_cpu_ms": ("CPU of the shutdown", "ms"),
    "p50_ms": ("event to reconcile p50", "ms"),
    "p99_ms": ("event to reconcile p99", "ms"),
    "p999_ms": ("event to reconcile p99.9", "ms"),
    "max_ms": ("event to reconcile, longest", "ms"),
    STALLED: ("the host's stalls", "%"),
    "server_cpu_us": ("the server's CPU", "µs"),
    "requests_per_update": ("writes per update", ""),
    "exec_ms": ("wall from exec", "ms"),
    "leader_ms": ("container start to leader", "ms"),
    "first_log_ms": ("container start to first log line", "ms"),
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

MORE_IS_BETTER = frozenset({"per_s", "per_cpu_s"})
LATENCIES = ("p50_ms", "p99_ms", "p999_ms", "max_ms")


def name_of(metric: str) -> str:
    return UNITS.get(metric, (metric, ""))[0]


def number(value: float | None) -> str:
    """Three digits that count; thousands with separators."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def quantity(metric: str, value: float | None) -> str:
    """A number with its unit."""
    return f"{number(value)} {UNITS.get(metric, (metric, ''))[1]}".strip()


def ratio(value: float) -> str:
    """`0.25`, and `1/13` where two digits would say too little."""
    if value < 0:
        return "below 0"
    return f"1/{1 / value:.0f}" if 0 < value < 0.1 else f"{value:.2f}"


def is_better(metric: str, now: float, before: float) -> bool:
    return now > before if metric in MORE_IS_BETTER else now < before
