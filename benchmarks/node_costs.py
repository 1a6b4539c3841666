"""The costs of the nodes of the embedded cluster: simulated Pods, the start of a process Pod, an idle cluster.

    python -m benchmarks.node_costs             # writes benchmarks/node-costs.md
    python -m benchmarks.node_costs idle        # measures one part and writes nothing

Each part runs in a process of its own. The CPU time is that of the whole process (`getrusage`), the memory of the idle
cluster is the sum of the proportional shares (`smaps_rollup`) of all its processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

_REPORT: Final = Path(__file__).parent / "node-costs.md"
_PODS: Final = 10_000
_STARTS: Final = 20
_IDLE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 30.0
_NAMESPACE: Final = "/api/v1/namespaces/default"
Figures = dict[str, float]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _simulated(count: int) -> Figures:
    """Create Deployments of 100 replicas on ten simulated nodes; measure until all Pods are Ready."""
    from steersman.cache.memory import ProcessMemory
    from steersman_cluster.cluster import DevCluster, Options

    capacity = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    path = "/apis/apps/v1/namespaces/default/deployments"
    async with (
        DevCluster.start(Options(nodes=10, ready_after=0.0, capacity=capacity)) as cluster,
        cluster.client() as client,
    ):
        await asyncio.sleep(2)  # controllers that have just started
        ProcessMemory().caches_synced()  # as `steersman cluster start` does
        cpu, began = _cpu_seconds(), time.perf_counter()
        before = await _revision(client)
        for number, first in enumerate(range(0, count, 100)):
            body = json.dumps(_deployment(f"d{number}", min(100, count - first))).encode()
            await client.raw.request("POST", path, body=body)
        while True:
            listed = json.loads((await client.raw.request("GET", path)).body)["items"]
            if sum(item["status"].get("readyReplicas", 0) for item in listed) == count:
                break
            await asyncio.sleep(0.5)
        used, wall = _cpu_seconds() - cpu, time.perf_counter() - began
        return {
            "pods": count,
            "cpu_ms": used / count * 1e3,
            "wall_s": wall,
            "writes": (await _revision(client) - before) / count,
        }


def _deployment(name: str, replicas: int) -> Mapping[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def _revision(client: Any) -> int:
    answer = await client.raw.request("GET", f"{_NAMESPACE}/configmaps", query={"limit": "1"})
    return int(json.loads(answer.body)["metadata"]["resourceVersion"])


async def _start(count: int) -> Figures:
    """Start Pods of a program that prints the time, one after the other; return the medians of the stages in ms."""
    from steersman_cluster.cluster import DevCluster, Options

    with tempfile.TemporaryDirectory() as directory:
        images = Path(directory, "images.yaml")
        images.write_text(  # noqa: ASYNC240 - nothing else runs yet
            'images:\n  clock: {command: [sh, -c, "date +%s.%N; exec sleep 1000"]}\n'
        )
        options = Options(nodes=2, node_kind="process", images=images)
        async with DevCluster.start(options) as cluster, cluster.client() as client:
            await _until(client, f"{_NAMESPACE}/serviceaccounts/default", lambda _: True)
            assert cluster.nodes is not None
            marks = _observed(cluster.nodes.agent)
            samples = [await _one_start(cluster, client, f"p{number}", marks) for number in range(count + 1)][1:]
            network = 1.0 if cluster.network is not None else 0.0
    found = {name: median(one[name] for one in samples) * 1e3 for name in samples[0]}
    own = [_own_start() for _ in range(count)]
    return {**found, "own": median(own) * 1e3, "namespaces": network, "starts": count}


def _observed(agent: Any) -> list[tuple[str, float]]:
    """Return a list that records the time of each event of the agent by its name."""
    marks: list[tuple[str, float]] = []
    post: Callable[[str, Any], None] = agent.post

    def recorded(uid: str, event: Any) -> None:
        marks.append((type(event).__name__, time.time()))
        post(uid, event)

    agent.post = recorded
    return marks


async def _one_start(cluster: Any, client: Any, name: str, marks: list[tuple[str, float]]) -> Figures:
    marks.clear()
    spec = {"containers": [{"name": "c", "image": "clock"}], "terminationGracePeriodSeconds": 0}
    body = json.dumps({"metadata": {"name": name}, "spec": spec}).encode()
    began = time.time()
    await client.raw.request("POST", f"{_NAMESPACE}/pods", body=body)
    pod = await _until(client, f"{_NAMESPACE}/pods/{name}", lambda pod: pod["status"]["phase"] == "Running")
    running = time.time()
    first: dict[str, float] = {}
    for what, at in marks:
        first.setdefault(what, at)
    path = f"{_NAMESPACE}/pods/{name}/log"
    text = b""
    while not text.strip():
        text = (await client.raw.request("GET", path)).body
        await asyncio.sleep(0.01)
    program = float(text.split()[0])
    await client.raw.request("DELETE", f"{_NAMESPACE}/pods/{name}")
    assert pod["status"]["podIP"]
    return {
        "bound": first["Tick"] - began,
        "prepared": first["Prepared"] - first["Tick"],
        "launched": program - first["Prepared"],
        "reported": running - program,
        "program": program - began,
    }


def _own_start() -> float:
    began = time.time()
    printed = subprocess.run(["sh", "-c", "date +%s.%N"], capture_output=True, check=True, text=True)
    return float(printed.stdout) - began


async def _until(client: Any, path: str, holds: Callable[[Any], bool]) -> Any:
    from steersman.client import NotFound

    while True:
        try:
            found = json.loads((await client.raw.request("GET", path)).body)
            if holds(found):
                return found
        except NotFound:
            pass
        await asyncio.sleep(0.002)


def idle() -> Figures:
    """Start a cluster of two process nodes as the command does; measure memory, CPU and switches while it is idle."""
    command = [sys.executable, "-m", "steersman_cluster", "start", "--nodes", "2", "--node-kind", "process"]
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": directory}
        )
        try:
            assert process.stdout is not None
            while "is ready at" not in process.stdout.readline():
                if process.poll() is not None:
                    raise RuntimeError("the cluster has not started")
            time.sleep(_SETTLE_SECONDS)
            processes = _descendants(process.pid)
            before = [_activity(pid) for pid in processes]
            time.sleep(_IDLE_SECONDS)
            after = [_activity(pid) for pid in processes]
            memory = [_memory(pid) for pid in processes]
        finally:
            process.terminate()
            process.wait(30)
    return {
        "processes": len(processes),
        "pss_mb": sum(pss for pss, _ in memory) / 1e6,
        "rss_mb": sum(rss for _, rss in memory) / 1e6,
        "cpu_percent": sum(b[0] - a[0] for a, b in zip(before, after, strict=True)) / _IDLE_SECONDS * 100,
        "switches": sum(b[1] - a[1] for a, b in zip(before, after, strict=True)) / _IDLE_SECONDS,
    }


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _activity(pid: int) -> tuple[float, int]:
    """Return the CPU seconds and the context switches of all threads of a process."""
    seconds, switches = 0.0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
        lines = (task / "status").read_text().splitlines()
        switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return seconds, switches


def _memory(pid: int) -> tuple[int, int]:
    """Return the proportional and the resident bytes of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    return sizes["Pss"], sizes["Rss"]


PARTS: Final[Mapping[str, Callable[[], Figures]]] = {
    "simulated": lambda: asyncio.run(_simulated(_PODS)),
    "start": lambda: asyncio.run(_start(_STARTS)),
    "idle": idle,
}


def measured(part: str) -> Figures:
    """Measure one part in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.node_costs", part]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def report(parts: Mapping[str, Figures]) -> str:
    """Return the report of all parts."""
    simulated, start, empty = parts["simulated"], parts["start"], parts["idle"]
    beyond = start["program"] - start["own"]
    network = "namespaces" if start["namespaces"] else "loopback"
    rows = [
        (f"CPU of a simulated Pod, of {simulated['pods']:.0f}", f"{simulated['cpu_ms']:.2f} ms", "≤ 2 ms"),
        ("wall time until all are Ready", f"{simulated['wall_s']:.1f} s", ""),
        ("writes of a simulated Pod", f"{simulated['writes']:.2f}", ""),
        (f"start of a process Pod beyond its own, network {network}", f"{beyond:.0f} ms", "≤ 150 ms"),
        ("memory of an idle cluster with two process nodes", f"{empty['pss_mb']:.0f} MB", "≤ 120 MB"),
        ("the same as the sum of resident sizes", f"{empty['rss_mb']:.0f} MB", ""),
        ("CPU of the idle cluster", f"{empty['cpu_percent']:.2f} %", "≤ 0.5 %"),
        ("context switches of the idle cluster per second", f"{empty['switches']:.1f}", ""),
    ]
    stages = [
        ("created, scheduled, seen by the node", start["bound"]),
        ("network and volumes prepared", start["prepared"]),
        ("files and control groups laid out, launcher, sandbox, program", start["launched"]),
        ("seen as Running by a client", start["reported"]),
    ]
    lines = [
        "<!-- Written by `python -m benchmarks.node_costs`. -->",
        "# What the nodes of the embedded cluster cost",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} processors.",
        "",
        "| measured | result | bar |",
        "|---|---|---|",
        *(f"| {name} | {value} | {bar} |" for name, value, bar in rows),
        "",
        f"The stages of the start of a process Pod, medians of {start['starts']:.0f} starts. The program prints the",
        f"time, which by itself it does {start['own']:.0f} ms after its start.",
        "",
        "| stage | ms |",
        "|---|---|",
        *(f"| {name} | {value:.0f} |" for name, value in stages),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(PARTS[sys.argv[1]]()))
    else:
        _REPORT.write_text(report({part: measured(part) for part in PARTS}))
        print(_REPORT.read_text(), end="")
