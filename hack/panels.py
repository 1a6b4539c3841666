"""Panels of dashboards with the values that Prometheus has scraped, as an SVG.

Prometheus comes from the machine (`apt install prometheus`).
"""

from __future__ import annotations

import html
import itertools
import json
import math
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Panel", "Series", "drawn", "free_port", "panel_of", "process", "prometheus", "wait_serving"]

SCRAPE_SECONDS: Final = 2
RATE_SECONDS: Final = 20
"""The value of Grafana's `$__rate_interval`: more than four scrapes."""
_WIDTH, _HEIGHT, _GAP = 560, 250, 16
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 36, 14, 58
_COLOURS: Final = ("#3f51b5", "#e65100", "#2e7d32", "#ad1457")
_MAX_SERIES: Final = len(_COLOURS)


@dataclass(frozen=True)
class Series:
    """The points of one line: seconds since the start, and values."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One panel with its lines."""

    title: str
    unit: str
    series: tuple[Series, ...]


def free_port() -> int:
    """Return an unused port of loopback."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def process(*words: str | Path, cwd: Path, log: Path) -> Iterator[None]:
    """Run a program until the block ends; the output goes to a log file."""
    with log.open("wb") as out:
        program = subprocess.Popen([str(word) for word in words], cwd=cwd, stdout=out, stderr=out)
        try:
            yield
            if program.poll() is not None:
                raise SystemExit(f"dashboard: {words[0]} ended with {program.returncode}:\n{log.read_text()[-2000:]}")
        finally:
            program.terminate()
            program.wait(30)


@contextmanager
def prometheus(
    directory: Path, targets: Sequence[tuple[str, Mapping[str, str]]], *, honor_labels: bool = False
) -> Iterator[str]:
    """Start Prometheus, and yield its address.

    Args:
        directory: A directory for its files.
        targets: The address and the labels of each target.
        honor_labels: Whether labels of the metrics take precedence over those of the targets.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise SystemExit("dashboard: prometheus is missing: apt install prometheus")
    scrapes = {
        "job_name": "operator",
        "honor_labels": honor_labels,
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_SECONDS}s",
        "static_configs": [{"targets": [target], "labels": dict(labels)} for target, labels in targets],
    }
    (directory / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrapes]}))  # JSON is YAML
    address = f"127.0.0.1:{free_port()}"
    flags = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    with process(program, *flags, f"--web.listen-address={address}", cwd=directory, log=directory / "prometheus.log"):
        yield address


def wait_serving(address: str) -> None:
    """Wait until a URL answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def panel_of(server: str, panel: Mapping[str, Any], variables: Mapping[str, str], began: float, ended: float) -> Panel:
    """Return a panel of a dashboard with the values of a period.

    Args:
        server: The address of Prometheus.
        panel: The panel of Grafana's JSON.
        variables: The values of the dashboard's variables.
        began: The start of the period as Unix time.
        ended: The end of the period as Unix time.
    """
    step = max(1.0, (ended - began) / 120)
    series: list[Series] = []
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in {**variables, "__rate_interval": f"{RATE_SECONDS}s"}.items():
            query = query.replace(f"${name}", value)
        arguments = urllib.parse.urlencode({"query": query, "start": began, "end": ended, "step": step})
        with urllib.request.urlopen(f"http://{server}/api/v1/query_range?{arguments}", timeout=30) as response:
            result = json.load(response)["data"]["result"]
        for name, one in zip(_legends(target["legendFormat"], result), result, strict=True):
            points = [(t - began, float(v)) for t, v in one["values"]]
            series.append(Series(name or panel["title"], tuple(_interrupted(points, step))))
    series.sort(key=lambda one: -sum(v for _, v in one.points if math.isfinite(v)))
    return Panel(panel["title"], panel["fieldConfig"]["defaults"]["unit"], tuple(series))


def _legends(form: str, result: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of lines: the legend, or the labels in which the lines differ."""
    metrics: list[Mapping[str, str]] = [one["metric"] for one in result]
    if form not in ("", "__auto"):
        return [_legend(form, labels) for labels in metrics]
    names = sorted({name for labels in metrics for name in labels})
    differing = [name for name in names if len({labels.get(name) for labels in metrics}) > 1]
    return [", ".join(labels.get(name, "") for name in differing) for labels in metrics]


def _interrupted(points: Sequence[tuple[float, float]], step: float) -> Iterator[tuple[float, float]]:
    """Yield the points of a line, with a value that is no number where points are missing."""
    yield from points[:1]
    for (before, _), (at, value) in itertools.pairwise(points):
        if at - before > 1.5 * step:
            yield at, math.nan
        yield at, value


def _legend(form: str, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace(f"{{{{{name}}}}}", value)
    return form


def _shown(value: float, unit: str) -> str:
    match unit:
        case "s" if value < 1:
            return f"{value * 1000:.3g} ms"
        case "s":
            return f"{value:.3g} s"
        case "percentunit":
            return f"{value:.0%}"
        case "ops" | "reqps":
            return f"{value:.3g}/s"
        case _:
            return f"{value:.3g}"


def _top(values: Sequence[float]) -> float:
    """Return the smallest round number at or above the maximum of values."""
    most = max(values, default=0.0)
    if most <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(most))
    return next(step * scale for step in (1, 1.5, 2, 3, 4, 5, 8, 10) if most <= step * scale * 1.0001)


def drawn(panels: Sequence[Panel], seconds: float) -> str:
    """Return the panels as an SVG in two columns."""
    rows = -(-len(panels) // 2)
    width, height = 2 * _WIDTH + 3 * _GAP, rows * (_HEIGHT + _GAP) + _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#eceff1"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = _GAP + number % 2 * (_WIDTH + _GAP), _GAP + number // 2 * (_HEIGHT + _GAP)
        lines += [f'<g transform="translate({x} {y})">', *_drawn_panel(panel, seconds), "</g>"]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _drawn_panel(panel: Panel, seconds: float) -> Iterator[str]:
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="#fff"/>'
    yield f'<text x="12" y="22" font-size="14" font-weight="bold" fill="#263238">{html.escape(panel.title)}</text>'
    # Lines that are zero all the time would hide each other.
    shown = ([one for one in panel.series if any(v > 0 for _, v in one.points)] or panel.series[:1])[:_MAX_SERIES]
    shown = sorted(shown, key=lambda one: one.name)  # a name has the same colour in most panels
    top = _top([v for one in shown for _, v in one.points if math.isfinite(v)])
    inner, depth = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    for part in range(5):
        y = _TOP + depth * (1 - part / 4)
        yield f'<path d="M{_LEFT} {y:.1f}h{inner}" stroke="#cfd8dc"/>'
        value = _shown(top * part / 4, panel.unit)
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#546e7a">{value}</text>'
        at = seconds * part / 4
        x = _LEFT + inner * part / 4
        yield f'<text x="{x:.1f}" y="{_TOP + depth + 16}" text-anchor="middle" fill="#546e7a">{_clock(at)}</text>'
    for one, colour in zip(shown, _COLOURS, strict=False):
        yield f'<path d="{_path(one, seconds, top, inner, depth)}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    x, y = _LEFT, _TOP + depth + 34
    for one, colour in zip(shown, _COLOURS, strict=False):
        name = one.name[:34]
        taken = 32 + 7 * len(name)
        if x + taken > _WIDTH - 8 and x > _LEFT:
            x, y = _LEFT, y + 16
        yield f'<rect x="{x:.0f}" y="{y - 6}" width="12" height="3" fill="{colour}"/>'
        yield f'<text x="{x + 16:.0f}" y="{y}" fill="#37474f">{html.escape(name)}</text>'
        x += taken


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _path(series: Series, seconds: float, top: float, width: float, height: float) -> str:
    """Return the line as path data; a value that is not a number interrupts it."""
    words: list[str] = []
    pen = "M"
    for at, value in series.points:
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = _LEFT + width * min(1.0, at / seconds), _TOP + height * (1 - max(0.0, value) / top)
        words.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(words)
