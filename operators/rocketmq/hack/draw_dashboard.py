"""Draws the panels of the dashboard into docs/dashboard.png, with the values of a run on real servers.

    python hack/draw_dashboard.py

A group of three members takes messages, loses its master, and elects another one. Prometheus scrapes the operator and
the brokers and evaluates the queries of `config/brokers/dashboard.json`; Chromium draws the results. Grafana is not
needed, so colours and fonts differ from Grafana's. It needs Linux, root, Java 17, Maven, Prometheus and Chromium.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

DASHBOARD = HERE / "config/brokers/dashboard.json"
PICTURE = HERE / "docs/dashboard.png"
SCRAPE_SECONDS = 2
RATE_INTERVAL = "20s"
WAIT_SECONDS = 120
WIDTH, CHART_HEIGHT = 540, 170
COLORS = ("#2f6fde", "#d9702b", "#2c9a5a", "#b0398d", "#7a6a00", "#00808a")
UNITS = {"s": " s", "percentunit": " %", "Bps": " B/s"}
PANEL_WIDTH = WIDTH + 22
"""The width of a panel with its padding and border."""
PAGE_WIDTH = 2 * PANEL_WIDTH + 12 + 2 * 16
STEADY_SECONDS = 40
"""Time with a master, before its loss and after its return."""
WITHOUT_SECONDS = 20
"""Time with the next master while the first one is stopped."""
STYLE = (
    f"""
body {{ font: 13px/1.4 sans-serif; margin: 16px; color: #222; background: #f4f5f7 }}
main {{ display: grid; grid-template-columns: repeat(2, {PANEL_WIDTH}px); gap: 12px }}
"""
    """
section { box-sizing: border-box; background: #fff; border: 1px solid #d8dadf; padding: 8px 10px; overflow: hidden }
svg { display: block }
h2 { font-size: 13px; margin: 0 0 4px } .stat { font-size: 54px; text-align: center; line-height: 170px }
ul { list-style: none; margin: 4px 0 0; padding: 0; font-size: 11px } li { display: inline-block; margin-right: 12px }
table { border-collapse: collapse } td, th { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #ddd }
"""
)

Series = tuple[str, list[tuple[float, float]]]


def substituted(expression: str, variables: Mapping[str, str]) -> str:
    """Return a query of the dashboard with the values of its variables."""
    for name, value in {**variables, "__rate_interval": RATE_INTERVAL}.items():
        expression = expression.replace(f"${name}", value)
    return expression


def page(panels: Sequence[tuple[Mapping[str, Any], Sequence[Series]]]) -> str:
    """Return the panels with their values as HTML."""
    parts = "".join(
        f"<section><h2>{escape(panel['title'])}</h2>{drawn(panel, series)}</section>" for panel, series in panels
    )
    # The title has the height of the page, because Chromium draws only the size that it is given.
    script = "<script>document.title = document.documentElement.offsetHeight</script>"
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style><main>{parts}</main>{script}'


def drawn(panel: Mapping[str, Any], series: Sequence[Series]) -> str:
    """Return the content of a panel: a number, a table, or lines over time."""
    if panel["type"] == "stat":
        return f'<div class="stat">{series[0][1][-1][1]:g}</div>' if series else '<div class="stat">no data</div>'
    if panel["type"] == "table":
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{points[-1][1]:g}</td></tr>" for name, points in series)
        return f"<table>{rows or '<tr><td>no data</td></tr>'}</table>"
    return lines(series, panel["fieldConfig"]["defaults"].get("unit", ""))


def lines(series: Sequence[Series], unit: str) -> str:
    """Return lines over time as SVG, with a legend."""
    points = [point for _, found in series for point in found]
    if not points:
        return "<p>no data</p>"
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    scale = 100.0 if unit == "percentunit" else 1.0
    top = rounded_up(max(value for _, value in points) * scale)
    left, right, bottom = 60, WIDTH - 24, CHART_HEIGHT - 18

    def place(at: float, value: float) -> str:
        x = left + (right - left) * (at - first) / max(1.0, last - first)
        return f"{x:.1f},{bottom - (bottom - 6) * value * scale / top:.1f}"

    drawing: list[str] = []
    for step in range(5):
        y = bottom - (bottom - 6) * step / 4
        drawing.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e5e9"/>')
        label = f"{top * step / 4:g}{UNITS.get(unit, '')}"
        drawing.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="10">{label}</text>')
    for second in range(0, int(last - first) + 1, 60 if last - first > 240 else 30):
        x = left + (right - left) * second / max(1.0, last - first)
        style = 'text-anchor="middle" font-size="10"'
        drawing.append(f'<text x="{x:.1f}" y="{CHART_HEIGHT - 4}" {style}>{second} s</text>')
    for color, (_, found) in zip(_colors(len(series)), series, strict=True):
        for part in without_gaps(found):
            path = " ".join(place(at, value) for at, value in part)
            drawing.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
    legend = "".join(
        f'<li><span style="color:{color}">■</span> {escape(name)}</li>'
        for color, (name, _) in zip(_colors(len(series)), series, strict=True)
    )
    return f'<svg width="{WIDTH}" height="{CHART_HEIGHT}">{"".join(drawing)}</svg><ul>{legend}</ul>'


def without_gaps(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return the parts of a line between times without values."""
    parts: list[list[tuple[float, float]]] = []
    for point in points:
        if not parts or point[0] - parts[-1][-1][0] > 2 * SCRAPE_SECONDS:
            parts.append([])
        parts[-1].append(point)
    return parts


def _colors(count: int) -> list[str]:
    return [COLORS[index % len(COLORS)] for index in range(count)]


def rounded_up(value: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not smaller; 1 for zero."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= value)


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **query: object) -> Any:
        """Return the data of an API response."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str, start: float, end: float) -> list[Series]:
        """Return the results of a query over time, named by the labels in which they differ."""
        found = self.get("query_range", query=expression, start=start, end=end, step=SCRAPE_SECONDS)["result"]
        differing = sorted(
            {
                name
                for each in found
                for name in each["metric"]
                if len({str(one["metric"].get(name)) for one in found}) > 1
            }
        )
        return [
            (
                ", ".join(each["metric"].get(name, "") for name in differing) or "all",
                [(float(at), float(value)) for at, value in each["values"] if value != "NaN"],
            )
            for each in found
        ]


@contextlib.contextmanager
def prometheus(directory: Path, targets: Sequence[tuple[str, Mapping[str, str]]]) -> Generator[Prometheus]:
    """Run Prometheus, which scrapes the targets with their labels, until the block ends."""
    from tests.remoting_servers import free_ports

    (port,) = free_ports(1)
    configuration = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [
            {
                "job_name": "rocketmq",
                "honor_labels": True,
                "static_configs": [{"targets": [target], "labels": dict(labels)} for target, labels in targets],
            }
        ],
    }
    (directory / "prometheus.yml").write_text(json.dumps(configuration))
    flags = [
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(["prometheus", *flags]) as process:
        try:
            found = Prometheus(f"127.0.0.1:{port}")
            _until(lambda: _answers(found), "Prometheus answers")
            yield found
        finally:
            process.kill()


def _answers(server: Prometheus) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(server.get("targets")["activeTargets"])
    return False


def _until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"it took too long until {what}")
        time.sleep(0.5)


def observed(directory: Path) -> list[tuple[Mapping[str, Any], list[Series]]]:
    """Run the servers and a loss of the master, and return the panels with their values."""
    from prometheus_client import start_http_server
    from steersman.logs import configure
    from steersman.metrics import REGISTRY
    from steersman.testing.node_faults import NodeFaults

    from tests.process_cluster import MODES, address_of, group_of, operated, process_cluster, running, sends, started
    from tests.process_cluster import until as holds
    from tests.workload import Consumer, Workload

    configure(level="error")
    with process_cluster(directory, nodes=3) as cluster, operated(cluster, "shop") as operator:
        routes = started(cluster, operator.ports, **MODES["DLEDGER"])
        server, _ = start_http_server(0, addr="127.0.0.1", registry=REGISTRY)
        targets: list[tuple[str, Mapping[str, str]]] = [(f"127.0.0.1:{server.server_port}", {})]
        for pod in group_of(cluster)["members"]:
            labels = {"namespace": "shop", "pod": pod, "rocketmq_daocloud_io_broker": "mq"}
            targets.append((operator.ports(address_of(cluster, pod, 5557)), labels))
        with prometheus(directory, targets) as found, Workload(routes, [("mq-0", 0), ("mq-0", 1)]) as workload:
            begun = time.time()
            with Consumer(routes, [("mq-0", 0)]):
                time.sleep(STEADY_SECONDS)
                master = group_of(cluster)["master"]
                with NodeFaults(cluster).pause(master):
                    holds(lambda: group_of(cluster)["master"] != master, "no other master is elected")
                    time.sleep(WITHOUT_SECONDS)
                holds(lambda: running(cluster), "the old master does not follow")
                sends(workload)
                time.sleep(STEADY_SECONDS)
            ended = time.time()
            panels = json.loads(DASHBOARD.read_text())["panels"]
            variables = {"namespace": "shop", "broker": "mq"}
            return [
                (
                    panel,
                    [
                        one
                        for target in panel["targets"]
                        for one in found.series(substituted(target["expr"], variables), begun, ended)
                    ],
                )
                for panel in panels
            ]


def draw(html: str, picture: Path, directory: Path) -> None:
    """Draw a page with Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("chromium is not installed")
    source = directory / "dashboard.html"
    source.write_text(html)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    command.append(f"--user-data-dir={directory}/chromium")

    def chromium(*flags: str) -> str:
        done = subprocess.run([*command, *flags, source.as_uri()], capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(done.stderr)
        return done.stdout

    found = re.search(r"<title>(\d+)</title>", chromium("--dump-dom", f"--window-size={PAGE_WIDTH},1000"))
    if found is None:
        sys.exit("Chromium did not run the script of the page")
    chromium(f"--screenshot={picture}", f"--window-size={PAGE_WIDTH},{found[1]}")


def main() -> None:
    """Observe a run and draw it."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        html = page(observed(directory))
        draw(html, PICTURE, directory)


if __name__ == "__main__":
    main()
