"""The embedded cluster beside kube-apiserver: `python -m benchmarks.embedded [ROW...] --runs N --json F --report`.

Start, memory, writes, reads, watches, and Pods under the controllers; the same load for both, runs interleaved, CPU of
the servers' processes first. A run that lost a write, an event or a Pod fails; a missed bar is reported as missed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from benchmarks import aside
from benchmarks import embedded_load as load
from benchmarks.embedded_load import Ask, Connection
from benchmarks.embedded_servers import REAL, Server, embedded, running
from benchmarks.harness import HERE, Bench, BenchmarkError
from benchmarks.rows import OURS, Bar, Numbers, Row, Size

_IN_FLIGHT = 16
_WATCHERS = 100


@aside.told
def start(_bench: Bench, peer: str, _size: Size, _seed: int) -> Numbers:
    """To the first answer: from exec, and from `start` in a process that has imported the cluster."""
    began = time.time()
    if peer == REAL:
        from steersman.testing import ControlPlane

        with ControlPlane.start(
            controller_manager=False, scheduler=False, apiserver_args=("--audit-log-path=",)
        ) as plane:
            plane.call("GET", "/api/v1/namespaces/default")
            server = Server("", 0, None, tuple(plane.pids.values()))  # type: ignore[arg-type]
            return {"exec_ms": (time.time() - began) * 1e3, "cpu_ms": server.cpu() * 1e3, "rss_mb": server.rss() / 1e6}
    process = embedded({"starts": 2})
    try:
        first, second = process.wait("answered-0", 30), process.wait("answered-1", 30)
    finally:
        process.close()
    return {
        "exec_ms": (first["wall"] - process.started) * 1e3,
        "cpu_ms": first["cpu"] * 1e3,
        "start_ms": first["wall_s"] * 1e3,
        "start_cpu_ms": first["cpu_s"] * 1e3,
        "again_ms": second["wall_s"] * 1e3,
        "rss_mb": first["rss"] / 1e6,
    }


def _on(workloads: bool = False) -> Callable[..., aside.Measure]:
    def wrap(measure: Callable[[Server, Size], Coroutine[Any, Any, Numbers]]) -> aside.Measure:
        @aside.told
        def measured(_bench: Bench, peer: str, size: Size, _seed: int) -> Numbers:
            with running(peer, workloads=workloads) as server:
                return asyncio.run(measure(server, size))

        return measured

    return wrap


@_on()
async def memory(server: Server, size: Size) -> Numbers:
    """Listening, after one answer; and what each of so many ConfigMaps of 1 KB adds."""
    async with load.connections(server, _IN_FLIGHT) as made:
        await made[0].ask(Ask("GET", "/api/v1/namespaces/default"))
        server.settle()
        empty = server.rss()
        asks = (Ask("POST", load.CONFIGMAPS, load.configmap(n, size=1000), code=201) for n in range(size.objects))
        await load.in_flight(made, asks)
        server.settle()
        full = server.rss()
    return {"empty_rss_mb": empty / 1e6, "rss_mb": full / 1e6, "bytes": (full - empty) / size.objects}


_WRITES: Mapping[str, Callable[[int, int], Ask]] = {
    "create": lambda n, _: Ask("POST", load.CONFIGMAPS, load.configmap(n), code=201),
    "update": lambda n, turn: Ask("PUT", f"{load.CONFIGMAPS}/map-{n}", load.configmap(n, f"u{turn}")),
    "merge": lambda n, turn: Ask(
        "PATCH", f"{load.CONFIGMAPS}/map-{n}", b'{"data":{"key":"m%d"}}' % turn, load.MERGE
    ),
    "apply": lambda n, turn: Ask(
        "PATCH", f"{load.CONFIGMAPS}/map-{n}?fieldManager=bench&force=true",
        load.configmap(n, f"a{turn}", manifest=True), load.APPLY,
    ),
}  # fmt: skip


def _writes(verb: str) -> aside.Measure:
    @_on()
    async def writes(server: Server, size: Size) -> Numbers:
        make, names = _WRITES[verb], min(500, size.events)
        async with load.connections(server, _IN_FLIGHT) as made:
            if verb != "create":
                await load.in_flight(made, (_WRITES["create"](n, 0) for n in range(names)))
            start = 1_000_000
            await load.in_flight(made, (make(start + n if verb == "create" else n % names, -1) for n in range(names)))
            before, cpu, began = await _revision(made[0]), server.cpu(), time.perf_counter()
            await load.in_flight(
                made, (make(n if verb == "create" else n % names, n // names) for n in range(size.events))
            )
            wall, used = time.perf_counter() - began, server.cpu() - cpu
            happened = await _revision(made[0]) - before
        if happened < size.events:
            raise BenchmarkError(f"{happened} revisions after {size.events} writes")
        return {"cpu_us": used / size.events * 1e6, "per_s": size.events / wall, "per_cpu_s": size.events / used}

    return writes


async def _revision(connection: Connection) -> int:
    listed = json.loads(await connection.ask(Ask("GET", f"{load.CONFIGMAPS}?limit=1")))
    return int(listed["metadata"]["resourceVersion"])


@_on()
async def reads(server: Server, size: Size) -> Numbers:
    """One get, and one list of 500, at a time."""
    async with load.connections(server, _IN_FLIGHT) as made:
        await load.in_flight(made, (_WRITES["create"](n, 0) for n in range(500)))
        one, all_ = Ask("GET", f"{load.CONFIGMAPS}/map-7"), Ask("GET", load.CONFIGMAPS)
        await load.timed(made[0], one, 200, lambda obj: obj["metadata"]["name"] == "map-7")
        numbers: dict[str, float] = {}
        for name, ask, count in (("get", one, size.events), ("list", all_, max(20, size.events // 10))):
            cpu = server.cpu()
            taken = await load.timed(made[0], ask, count, lambda obj: "items" not in obj or len(obj["items"]) >= 500)
            numbers |= {
                f"{name}_p50_ms": taken[count // 2] * 1e3,
                f"{name}_p99_ms": taken[int(count * 0.99)] * 1e3,
                f"{name}_cpu_us": (server.cpu() - cpu) / count * 1e6,
            }
        return numbers


@_on()
async def fan_out(server: Server, size: Size) -> Numbers:
    """So many events, each to a hundred watchers; every watcher must see every event, in order."""
    async with load.connections(server, _WATCHERS) as watching, load.connections(server, 4) as made:
        since = await _revision(made[0])
        expected = [f"map-{n}" for n in range(size.events)]

        async def follow(connection: Connection) -> list[str]:
            seen: list[str] = []
            async for line in connection.watch(f"{load.CONFIGMAPS}?watch=true&resourceVersion={since}"):
                seen.append(line.partition(b'"name":"')[2].partition(b'"')[0].decode())
                if len(seen) == len(expected):
                    break
            return seen

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow(connection)) for connection in watching]
            await asyncio.sleep(1)
            cpu, began = server.cpu(), time.perf_counter()
            await load.in_flight(made[:1], (_WRITES["create"](n, 0) for n in range(size.events)))
        if any(task.result() != expected for task in tasks):
            raise BenchmarkError("a watcher lost events, or saw them in another order")
        wall, used = time.perf_counter() - began, server.cpu() - cpu
    return {"cpu_us": used / (size.events * _WATCHERS) * 1e6, "per_s": size.events * _WATCHERS / wall}


@aside.told
def pods(_bench: Bench, peer: str, size: Size, _seed: int) -> Numbers:
    """Deployments of 100 until all Pods are Ready, in three sizes: what one Pod costs, and how that grows."""
    numbers: dict[str, float] = {}
    counts = [size.objects // 10, size.objects * 3 // 10, size.objects]
    for name, count in zip(("small", "middle", "large"), counts, strict=True):
        with running(peer, workloads=True) as server:
            used, wall = asyncio.run(_converge(server, count))
        print(f"    {peer}: {count} Pods, {used / count * 1e3:.2f} ms CPU each, {wall:.1f} s", file=sys.stderr)
        numbers |= {f"pod_{name}_ms": used / count * 1e3, f"wall_{name}_s": wall}
    return {**numbers, "growth": numbers["pod_large_ms"] / numbers["pod_small_ms"]}


async def _converge(server: Server, count: int) -> tuple[float, float]:
    sizes = [min(100, count - first) for first in range(0, count, 100)]
    async with load.connections(server, 4) as made:
        await asyncio.sleep(2)  # controllers that have just started
        cpu, began = server.cpu(), time.perf_counter()
        asks = [Ask("POST", load.DEPLOYMENTS, load.deployment(f"d{n}", size), code=201) for n, size in enumerate(sizes)]
        await load.in_flight(made, asks)
        deadline = time.monotonic() + 900
        while True:
            listed = json.loads(await made[0].ask(Ask("GET", load.DEPLOYMENTS)))
            ready = sum(item["status"].get("readyReplicas", 0) for item in listed["items"])
            if ready == count:
                break
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{ready} of {count} Pods are ready after 900 s")
            await asyncio.sleep(0.5)
        used, wall = server.cpu() - cpu, time.perf_counter() - began
        found = json.loads(await made[0].ask(Ask("GET", "/api/v1/namespaces/default/pods")))["items"]
        if len(found) != count:
            raise BenchmarkError(f"{len(found)} Pods where {count} were asked for")
        return used, wall


_BOTH = (OURS, REAL)
_PER_SECOND = 1e6 / 3000

ROWS: tuple[Row, ...] = (
    Row(
        "start", "To the first answer", start, Size(), Size(), _BOTH,
        (Bar("start_ms", 100, ""), Bar("exec_ms", 0.25, REAL), Bar("rss_mb", 60, ""), Bar("rss_mb", 0.3, REAL)),
    ),
    Row(
        "memory", "Listening; and with 10,000 ConfigMaps of 1 KB", memory,
        Size(objects=10_000), Size(objects=500), _BOTH,
        (Bar("empty_rss_mb", 0.3, REAL), Bar("bytes", 1.0, REAL)),
    ),
    *(
        Row(
            f"write-{verb}", f"Small writes ({verb}), {_IN_FLIGHT} in flight", _writes(verb),
            Size(events=10_000), Size(events=500), _BOTH, (Bar("cpu_us", _PER_SECOND, ""), Bar("cpu_us", 1.0, REAL)),
        )
        for verb in _WRITES
    ),
    Row(
        "read", "Get one, list 500", reads, Size(events=2_000), Size(events=200), _BOTH,
        (Bar("get_p50_ms", 1.0, REAL), Bar("list_p50_ms", 1.0, REAL)),
    ),
    Row(
        "fan-out", f"An event to each of {_WATCHERS} watchers", fan_out, Size(events=2_000), Size(events=100), _BOTH,
        (Bar("cpu_us", 1.0, REAL),),
    ),
    Row(
        "pods", "Pods of Deployments until Ready: 1,000, 3,000, 10,000", pods,
        Size(objects=10_000), Size(objects=500), _BOTH, (Bar("growth", 1.3, ""), Bar("pod_large_ms", 1.0, REAL)),
        {REAL: Size(objects=3_000)},
    ),
)  # fmt: skip


STUDY = aside.Study("embedded", (__doc__ or "").splitlines()[0], ROWS, page=HERE / "embedded.md")

if __name__ == "__main__":
    sys.exit(aside.main(STUDY))
