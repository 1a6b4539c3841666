"""Measures the CPU time and the memory of an operator with 100 idle clusters of three members each.

    python hack/measure_idle.py                 writes docs/reports/idle.json and the figures of the README
    python hack/measure_idle.py --render        writes only the figures, from the report

The operator is a separate process on an embedded cluster without nodes. Its agents are simulated: each listens with the
certificate of its cluster, performs the actions on a server in memory and reports its state, over HTTPS. So the figures
include all requests of the operator, and no database server has to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import figures
from aiohttp import web

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE)]

REPORT = HERE / "docs/reports/idle.json"
BEGIN, END = "<!-- idle: begin, written by hack/measure_idle.py -->", "<!-- idle: end -->"
FIRST_PORT = 21000
MEMBERS = 3
SETTLE_SECONDS = 30.0
SAMPLE_SECONDS = 10.0
WAIT_SECONDS = 600.0
KIND = "mysqlclusters.database.example.com"


def render(report: dict[str, Any]) -> str:
    """Return the figures as text for the README."""
    note = f"; {report['note']}" if report.get("note") else ""
    text = (
        f"An operator with {report['clusters']} idle clusters of three members uses {report['cpu_percent']:.1f} % of a"
        f" core (median of {len(report['samples'])} samples of {SAMPLE_SECONDS:.0f} s) and"
        f" {report['rss_mb']:.0f} MB of memory ({report['date']}, {report['cores']} cores, simulated agents{note})."
    )
    return textwrap.fill(text, 120)


def with_figures(readme: str, report: dict[str, Any]) -> str:
    """Return a README with the figures of a report between the markers."""
    return figures.between(readme, BEGIN, END, render(report))


class SimulatedAgents:
    """The agents of all clusters, in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._runners: list[web.AppRunner] = []
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def serve(self, number: int, certificate: Path, key: Path) -> None:
        """Start the agents of a cluster."""
        asyncio.run_coroutine_threadsafe(self._serve(number, certificate, key), self._loop).result(60)

    async def _serve(self, number: int, certificate: Path, key: Path) -> None:
        from mysqlcluster import names
        from tests.simulated import SimulatedServers

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        members = names.members(f"idle-{number}", MEMBERS)
        servers = SimulatedServers(*members)
        for ordinal, member in enumerate(members):
            runner = web.AppRunner(_application(servers, member, self._closing), access_log=None)
            self._runners.append(runner)
            await runner.setup()
            port = FIRST_PORT + number * MEMBERS + ordinal
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()

    def close(self) -> None:
        """Stop all agents."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _close(self) -> None:
        self._closing.set()
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))


def _application(servers: Any, member: str, closing: asyncio.Event) -> web.Application:
    from mysqlcluster.actions import decode_action
    from mysqlcluster.agent.changes import send_changes
    from mysqlcluster.agents import ActionError
    from mysqlcluster.observation import encode_member

    async def state(_: web.Request) -> web.Response:
        return web.Response(body=encode_member(await servers.state(member)), content_type="application/json")

    async def changes(request: web.Request) -> web.StreamResponse:
        return await send_changes(request, lambda: servers.state(member), closing)

    async def act(request: web.Request) -> web.Response:
        try:
            found = await servers.act(decode_action(await request.read()))
        except ActionError as problem:
            return web.json_response({"error": str(problem)}, status=409)
        return web.Response(body=encode_member(found), content_type="application/json")

    application = web.Application()
    application.router.add_get("/v1/state", state)
    application.router.add_get("/v1/changes", changes)
    application.router.add_post("/v1/actions", act)
    return application


def measure(clusters: int, samples: int, note: str) -> dict[str, Any]:
    """Create the clusters, wait until all run, and sample the operator."""
    from steersman.testing import EmbeddedCluster

    with (
        EmbeddedCluster.start() as cluster,
        tempfile.TemporaryDirectory() as directory,
        contextlib.closing(SimulatedAgents()) as agents,
        _namespace(cluster),
    ):
        cluster.apply(HERE / "config/crd/bases")
        with _operator(cluster, Path(directory)) as process:
            for number in range(clusters):
                cluster.apply(_cluster(number))
            for number in range(clusters):
                _serve(cluster, agents, number, Path(directory))
            _until(lambda: _running(cluster) == clusters, lambda: f"{_running(cluster)} of {clusters} clusters run")
            time.sleep(SETTLE_SECONDS)
            found = [_sample(process.pid) for _ in range(samples)]
            memory = _status(process.pid, "VmRSS") / 1000
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "note": note,
        "clusters": clusters,
        "cpu_percent": round(statistics.median(found), 2),
        "rss_mb": round(memory, 1),
        "samples": [round(each, 2) for each in found],
    }


@contextlib.contextmanager
def _namespace(cluster: Any) -> Generator[None]:
    cluster.create_namespace("idle")
    with cluster.test("idle"):
        yield


def _cluster(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLCluster",
        "metadata": {"name": f"idle-{number}"},
        "spec": {"size": MEMBERS, "flavor": "mariadb"},
    }


@contextlib.contextmanager
def _operator(cluster: Any, directory: Path) -> Generator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, str(HERE / "hack/idle_operator.py"), str(FIRST_PORT)),
        *("run", "mysqlcluster:operator", "--kubeconfig", str(cluster.kubeconfig)),
        *("--namespace", cluster.namespace, "--no-leader-elect"),
    ]
    log = directory / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=HERE, env={**os.environ, "PYTHONPATH": str(HERE)}, stdout=output, stderr=output
        )
    try:
        yield process
        if process.poll() is not None:
            sys.exit(f"the operator has ended: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _serve(cluster: Any, agents: SimulatedAgents, number: int, directory: Path) -> None:
    import base64

    name = f"idle-{number}-tls"
    _until(lambda: cluster.get("secrets", name), lambda: f"the Secret {name} is missing")
    data = cluster.get("secrets", name)["data"]
    certificate, key = directory / f"{number}.crt", directory / f"{number}.key"
    certificate.write_bytes(base64.b64decode(data["tls.crt"]))
    key.write_bytes(base64.b64decode(data["tls.key"]))
    agents.serve(number, certificate, key)


def _running(cluster: Any) -> int:
    found: list[dict[str, Any]] = cluster.list(KIND)
    return sum(each.get("status", {}).get("phase") == "Running" for each in found)


def _until(holds: Any, what: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(what())
        time.sleep(0.5)


def _sample(pid: int) -> float:
    """Return the CPU time of a process and of its ended children in a time, in percent of a core."""
    before, began = _cpu_seconds(pid), time.monotonic()
    time.sleep(SAMPLE_SECONDS)
    return 100 * (_cpu_seconds(pid) - before) / (time.monotonic() - began)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise KeyError(name)


def main() -> None:
    """Measure, or render the figures of the last report."""
    parser = figures.options(__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    arguments = parser.parse_args()
    measured = None if arguments.render else measure(arguments.clusters, arguments.runs, arguments.note)
    figures.publish(REPORT, measured, render, with_figures)


if __name__ == "__main__":
    main()
