"""Runs SidecarSet on an embedded cluster, scrapes it with Prometheus, and draws its dashboard as a picture.

    python hack/dashboard.py FILE [--seconds 240]

The panels, queries and units are those that `steersman manifests --dashboard` writes for Grafana. Prometheus comes from
the machine (`apt install prometheus`).
"""

from __future__ import annotations

import argparse
import html
import json
import math
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steersman.cli.operator_loader import load_operator
from steersman.manifests import Package
from steersman.manifests.monitoring import dashboard
from steersman.testing import Cluster, EmbeddedCluster

__all__ = ["Panel", "Series", "drawn", "record"]

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = ROOT / "operators/sidecarset"
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


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def _process(*words: str | Path, cwd: Path, log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in words], cwd=cwd, stdout=out, stderr=out)
        try:
            yield
            if process.poll() is not None:
                raise SystemExit(f"dashboard: {words[0]} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def _prometheus(directory: Path, target: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Start Prometheus with one target, and yield its address."""
    program = shutil.which("prometheus")
    if program is None:
        raise SystemExit("dashboard: prometheus is missing: apt install prometheus")
    static = {"targets": [target], "labels": labels}
    scrape = {"job_name": labels["job"], "scrape_interval": f"{SCRAPE_SECONDS}s", "static_configs": [static]}
    (directory / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))  # JSON is YAML
    address = f"127.0.0.1:{_free_port()}"
    flags = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    with _process(program, *flags, f"--web.listen-address={address}", cwd=directory, log=directory / "prometheus.log"):
        yield address


def _workload(cluster: Cluster, seconds: float) -> None:
    """Scale a Deployment up and down, and change the image of the SidecarSet now and then."""
    sidecars: dict[str, Any] = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "log", "image": "log:1"}],
        },
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    cluster.apply(sidecars, web)
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turn += 1
        cluster.scale("deployment", "web", (8, 20, 30, 12)[turn % 4])
        if turn % 3 == 0:
            sidecars["spec"]["containers"][0]["image"] = f"log:{turn}"
            cluster.apply(sidecars)
        time.sleep(min(10.0, max(0.0, end - time.monotonic())))


def record(seconds: float) -> tuple[Panel, ...]:
    """Return the panels of the dashboard with what Prometheus has scraped in so many seconds."""
    operator = load_operator("sidecarset:operator", PROJECT)
    package = Package(operator, target="sidecarset:operator")
    found: dict[str, Any] = json.loads(dashboard(package))
    with tempfile.TemporaryDirectory() as temporary, EmbeddedCluster.start() as cluster:
        directory = Path(temporary)
        target = f"127.0.0.1:{_free_port()}"
        labels = {"job": package.metrics_service, "namespace": package.home, "pod": f"{package.name}-0"}
        words = [sys.executable, "-m", "steersman", "run", "sidecarset:operator", "--kubeconfig", cluster.kubeconfig]
        words += [f"--metrics-bind-address={target}", "--health-probe-bind-address=0", "--lease-namespace=default"]
        words += ["--webhook-bind-address=127.0.0.1:0", "--install-crds"]
        with (
            _process(*words, cwd=PROJECT, log=directory / "operator.log"),
            _prometheus(directory, target, labels) as prometheus,
        ):
            _serves(f"http://{target}/metrics")
            cluster.create_namespace("shop")
            began = time.time()
            with cluster.test("shop"):
                _workload(cluster, seconds)
            return tuple(_panel(prometheus, panel, package.home, began, time.time()) for panel in found["panels"])


def _serves(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _panel(prometheus: str, panel: Mapping[str, Any], namespace: str, began: float, ended: float) -> Panel:
    (target,) = panel["targets"]
    query = target["expr"].replace("$__rate_interval", f"{RATE_SECONDS}s").replace("$namespace", namespace)
    step = max(1.0, (ended - began) / 120)
    arguments = urllib.parse.urlencode({"query": query, "start": began, "end": ended, "step": step})
    with urllib.request.urlopen(f"http://{prometheus}/api/v1/query_range?{arguments}", timeout=30) as response:
        result = json.load(response)["data"]["result"]
    series = [
        Series(_legend(target["legendFormat"], one["metric"]), tuple((t - began, float(v)) for t, v in one["values"]))
        for one in result
    ]
    series.sort(key=lambda one: -sum(v for _, v in one.points if math.isfinite(v)))
    return Panel(panel["title"], panel["fieldConfig"]["defaults"]["unit"], tuple(series))


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
    """Return a round number that is not less than any value."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the dashboard of an operator from real scrapes.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0, help="how long the operator works")
    options = parser.parse_args()
    options.file.write_text(drawn(record(options.seconds), options.seconds))


if __name__ == "__main__":
    main()
