"""`nodes/NAME/proxy`: what monitoring and debugging tools read from a kubelet."""

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from steersman.testing import Simulation, simulated
from steersman_cluster.api.requests.messages import Params, Request
from steersman_cluster.cluster import ADMIN, DevCluster
from steersman_cluster.nodes.process.processes import consumed

from .direct import Headers

PROXY = "/api/v1/nodes/node-1/proxy"


async def ask(cluster: DevCluster, path: str, method: str = "GET", **query: str) -> tuple[int, str, str]:
    answer = await cluster.server.handle(Request(method, path, Params(query.items()), Headers(), b"", ADMIN))
    body = answer.body
    if answer.stream is not None:
        body = b"".join([chunk async for chunk in answer.stream])
    return answer.status, answer.content_type, body.decode()


async def read(cluster: DevCluster, path: str) -> Any:
    status, kind, body = await ask(cluster, path)
    assert (status, kind) == (200, "application/json"), body
    return json.loads(body)


async def run_pods(simulation: Simulation) -> None:
    """A Pod that uses 250m and 64Mi in one of two containers, and one that has not started after ten seconds."""
    await simulation.apply("""
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    simulate.steersman.dev/cpu.a: 250m
    simulate.steersman.dev/logs: hello
spec:
  nodeName: node-1
  containers:
  - {name: a, image: i, resources: {requests: {memory: 64Mi}}}
  - {name: b, image: i, resources: {requests: {cpu: "1"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: stuck, annotations: {simulate.steersman.dev/start-after: 1h}}
spec: {nodeName: node-1, containers: [{name: a, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: homeless}
spec: {schedulerName: none, containers: [{name: a, image: i}]}
""")
    await simulation.passes(seconds=10)


@simulated(nodes=1)
async def test_a_node_lists_the_pods_that_are_bound_to_it(simulation: Simulation) -> None:
    await run_pods(simulation)
    pods = await read(simulation.cluster, f"{PROXY}/pods")
    assert (pods["kind"], sorted(pod["metadata"]["name"] for pod in pods["items"])) == ("PodList", ["stuck", "web"])
    running = await read(simulation.cluster, f"{PROXY}/runningpods/")
    assert [pod["metadata"]["name"] for pod in running["items"]] == ["web"]


@simulated(nodes=1)
async def test_a_node_summarises_what_its_containers_use(simulation: Simulation) -> None:
    await run_pods(simulation)
    first = await read(simulation.cluster, f"{PROXY}/stats/summary")
    (pod,) = first["pods"]
    assert (pod["podRef"]["name"], pod["podRef"]["namespace"]) == ("web", "default")
    assert {one["name"]: one["cpu"]["usageNanoCores"] for one in pod["containers"]} == {
        "a": 250_000_000,
        "b": 1_000_000_000,
    }
    assert [one["memory"]["workingSetBytes"] for one in pod["containers"]] == [64 << 20, 0]
    assert pod["cpu"]["usageNanoCores"] == first["node"]["cpu"]["usageNanoCores"] == 1_250_000_000
    await simulation.passes(seconds=60)
    second = await read(simulation.cluster, f"{PROXY}/stats/summary")
    used = [summary["node"]["cpu"]["usageCoreNanoSeconds"] for summary in (first, second)]
    assert (used[1] - used[0]) / 1_000_000_000 == pytest.approx(75, abs=1)


@simulated(nodes=1)
async def test_a_node_has_the_metrics_that_metrics_server_reads(simulation: Simulation) -> None:
    await run_pods(simulation)
    status, kind, text = await ask(simulation.cluster, f"{PROXY}/metrics/resource")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = text.splitlines()
    assert "# TYPE container_cpu_usage_seconds_total counter" in lines
    labels = 'container="a",namespace="default",pod="web"'
    assert any(line.startswith(f"container_memory_working_set_bytes{{{labels}}} {64 << 20} ") for line in lines)
    assert any(line.startswith('pod_cpu_usage_seconds_total{namespace="default",pod="web"} ') for line in lines)
    assert lines[-1] == "resource_scrape_error 0"
    _, _, text = await ask(simulation.cluster, f"{PROXY}/metrics")
    assert "kubelet_running_pods 1\n" in text
    assert 'kubelet_running_containers{container_state="running"} 2\n' in text


@simulated(nodes=1)
async def test_a_node_serves_health_and_logs_and_refuses_the_rest(simulation: Simulation) -> None:
    await run_pods(simulation)
    cluster = simulation.cluster
    for path in ("healthz", "healthz/ping", "healthz/syncloop"):
        assert await ask(cluster, f"{PROXY}/{path}") == (200, "text/plain; charset=utf-8", "ok")
    status, _, log = await ask(cluster, f"{PROXY}/containerLogs/default/web/a", tailLines="1")
    assert (status, log) == (200, "hello\n")
    assert (await ask(cluster, f"{PROXY}/containerLogs/default/homeless/a"))[0] == 404
    assert (await ask(cluster, f"{PROXY}/containerLogs/default/stuck/a"))[0] == 400
    assert (await ask(cluster, f"{PROXY}/nonsense"))[0] == 404
    assert (await ask(cluster, f"{PROXY}/pods", "POST"))[0] == 405


@simulated(nodes=1)
async def test_the_port_of_a_node_is_that_of_its_kubelet(simulation: Simulation) -> None:
    cluster = simulation.cluster
    assert (await ask(cluster, "/api/v1/nodes/node-1:10250/proxy/healthz"))[0] == 200
    assert (await ask(cluster, "/api/v1/nodes/https:node-1:10250/proxy/healthz"))[0] == 200
    assert (await ask(cluster, "/api/v1/nodes/node-1:9100/proxy/metrics"))[0] == 503
    assert (await ask(cluster, "/api/v1/nodes/other/proxy/healthz"))[0] == 404


async def test_the_processes_of_a_container_are_measured() -> None:

    script = (
        "x = bytearray(50 << 20)\nfor _ in range(3000000): pass\nprint('up', flush=True)\nimport time; time.sleep(60)"
    )
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", 'python3 -c "$1"; true', "sh", script, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        cpu_seconds, memory_bytes = consumed(process.pid)
        assert cpu_seconds > 0
        assert memory_bytes > 50 << 20
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert consumed(process.pid) == (0.0, 0)
