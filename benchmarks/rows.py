"""The rows of the benchmark: what each measures, on whom, and which bar it has to hold.

A row's measurement drives one fresh peer process and returns plain numbers; it raises BenchmarkError when the
peer missed an event or a write, so that nobody wins by dropping work.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.harness import ROOT, Bench, BenchmarkError, Mark, Peer

OURS = "steersman"
PLAIN = "steersman+asyncio"
"""As `pip install steersman` makes it, without the extra `uvloop`."""
THEIRS = "controller-runtime"
KOPF = "kopf"
KOPF_UVLOOP = "kopf+uvloop"
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Bar:
    """`metric` of `ours` ÷ that of `against` (or ours alone when `against` is empty) must not exceed `limit`."""

    metric: str
    limit: float
    against: str = THEIRS
    ours: str = OURS


@dataclass(frozen=True)
class Size:
    """How much of what: `objects` exist, `events` happen at `rate` a second (0: saturated)."""

    kind: str = "widgets"
    objects: int = 0
    events: int = 0
    rate: float = 0.0


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    measure: Callable[[Bench, str, Size, int], Numbers]
    full: Size
    quick: Size
    peers: tuple[str, ...] = (OURS, THEIRS)
    bars: tuple[Bar, ...] = ()
    smaller: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """Sizes of peers that would take too long at full size; all numbers are per item."""

    def size(self, peer: str, *, quick: bool) -> Size:
        return self.quick if quick else self.smaller.get(peer, self.full)


def _settled(peer: Peer, size: Size, mode: str) -> tuple[Mark, float]:
    """Wait for the initial sync, and in modes with a controller for the first reconcile of every object.

    Returns the mark and the RSS before settling, after a moment of quiet.
    """
    if peer.name in (KOPF, KOPF_UVLOOP):
        _quiet(peer)
    else:
        peer.wait("synced")
    expected = size.objects
    mark = peer.until(lambda m: m["seen"] >= expected, 90, f"seeing {expected} objects")
    if mode != "informer" and peer.name not in (KOPF, KOPF_UVLOOP):
        mark = peer.until(lambda m: m["reconciles"] >= expected, 90, f"{expected} first reconciles")
    if mark["seen"] != expected:
        raise BenchmarkError(f"{peer.name} saw {mark['seen']} objects of {expected}")
    return mark, mark["rss"]


def _quiet(peer: Peer) -> None:
    # kopf says nothing when it has synced: wait until a second passes without work.
    before = peer.ask("mark")
    while True:
        time.sleep(1)
        after = peer.ask("mark")
        if after["seen"] and (after["seen"], after["events"]) == (before["seen"], before["events"]):
            return
        if after["wall"] - peer.started > 300:
            raise BenchmarkError(f"{peer.name} did not come to rest in 300 s")
        if after["cpu"] - before["cpu"] < 0.02 and after["wall"] - peer.started > 5:
            return
        before = after


def sync(bench: Bench, peer: str, size: Size, seed: int, mode: str = "informer") -> Numbers:
    """CPU and memory of the initial sync, over those of the same process with an empty collection."""
    got: list[tuple[Mark, Mark, Mark]] = []
    for count in (0, size.objects):
        bench.stub.reset(size.kind, count, seed)
        with bench.peer(peer, size.kind, mode) as process:
            starting = process.wait("starting")
            mark, _ = _settled(process, Size(size.kind, count), mode)
            if peer != KOPF and mode == "informer":
                mark = process.wait("synced")
            time.sleep(0.5)
            got.append((starting, mark, process.ask("settle")))
    (start0, synced0, settled0), (start, synced, settled) = got
    n = size.objects
    return {
        "cpu_us": ((synced["cpu"] - start["cpu"]) - (synced0["cpu"] - start0["cpu"])) / n * 1e6,
        "bytes": (settled["rss"] - settled0["rss"]) / n,
        "bytes_unsettled": (synced["rss"] - settled0["rss"]) / n,
        "rss_mb": settled["rss"] / 1e6,
        "empty_rss_mb": settled0["rss"] / 1e6,
        "wall_s": synced["wall"] - start["wall"],
    }


def first_pass(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The initial sync of a controller: list, and reconcile every object once without writing."""
    return sync(bench, peer, size, seed, mode="noop")


def _load(bench: Bench, peer: str, size: Size, seed: int, mode: str) -> tuple[Numbers, Mark, int]:
    bench.stub.reset(size.kind, size.objects, seed)
    with bench.peer(peer, size.kind, mode) as process:
        _settled(process, size, mode)
        if size.rate:  # let the initial work's garbage go, so that it is not counted as the events'
            process.ask("settle")
            time.sleep(1)
        at_start = bench.stub.counters()
        before, wrote = process.ask("mark"), at_start["patches"]
        bench.stub.load(size.kind, size.events, size.rate)
        time.sleep(size.events / size.rate if size.rate else 0.2)

        def done(m: Mark) -> bool:
            work = m["reconciles"] if mode == "patch" else m["events"]
            start = before["reconciles"] if mode == "patch" else before["events"]
            return work - start >= size.events

        after = process.until(done, 240, f"{size.events} events")
        if mode == "patch":
            after = _written(bench, process, size, wrote, after)
        process.ask("settle")
        at_end = bench.stub.counters()
        patches = at_end["patches"] - wrote
        if mode == "noop" and after["reconciles"] - before["reconciles"] < min(size.events, size.objects):
            raise BenchmarkError(
                f"{peer} reconciled {after['reconciles'] - before['reconciles']} of {size.events} events"
            )
        if after["errors"]:
            raise BenchmarkError(f"{peer} met {after['errors']} errors")
        numbers = {
            "cpu_us": (after["cpu"] - before["cpu"]) / size.events * 1e6,
            "rss_mb": after["rss"] / 1e6,
            "p50_ms": after["p50"] * 1e3,
            "p99_ms": after["p99"] * 1e3,
            "server_cpu_us": (at_end["cpuSeconds"] - at_start["cpuSeconds"]) / size.events * 1e6,
        }
        return numbers, after, patches


def _written(bench: Bench, process: Peer, size: Size, wrote: int, after: Mark) -> Mark:
    """Wait until the server has received every write; the last CPU reading is the one that counts."""
    deadline = time.monotonic() + 60
    latencies = after
    while bench.stub.counters()["patches"] - wrote < size.events:
        if time.monotonic() > deadline:
            written = bench.stub.counters()["patches"] - wrote
            raise process.failed(f"wrote {written} of {size.events} status patches")
        time.sleep(0.1)
    time.sleep(0.5)  # the echoes of the last writes
    last = process.ask("mark")
    return {**last, "p50": latencies["p50"], "p99": latencies["p99"]}


def events(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch event: decoded, stored, told to a handler that counts. No controller."""
    numbers, _, _ = _load(bench, peer, size, seed, "informer")
    return numbers


def reconciles(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch event that is also queued, and reconciled by a controller that reads the object and writes nothing."""
    numbers, _, patches = _load(bench, peer, size, seed, "noop")
    if patches:
        raise BenchmarkError(f"{peer} wrote {patches} patches where none was due")
    return numbers


def patches(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The full life of an update: event, reconcile, one status PATCH, and the echo of that."""
    numbers, _, written = _load(bench, peer, size, seed, "patch")
    return {**numbers, "requests_per_update": written / size.events}


def idle(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A controller with one object and nothing to do."""
    bench.stub.reset(size.kind, 1, seed)
    with bench.peer(peer, size.kind, "patch") as process:
        _settled(process, Size(size.kind, 1), "patch")
        before = process.ask("settle")
        time.sleep(size.events)
        after = process.ask("mark")
        return {
            "rss_mb": after["rss"] / 1e6,
            "cpu_ms_per_s": (after["cpu"] - before["cpu"]) / (after["wall"] - before["wall"]) * 1e3,
        }


def cold_start(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """From exec to the first reconcile of a waiting object (for kopf: of its first update)."""
    bench.stub.reset(size.kind, 1, seed)
    with bench.peer(peer, size.kind, "noop") as process:
        if peer == KOPF:
            process.until(lambda m: m["seen"] >= 1, 30, "seeing the object")
            mark = process.ask("mark")
        else:
            mark = process.wait("first-reconcile", 30)
        return {
            "wall_ms": (mark["wall"] - process.started) * 1e3,
            "cpu_ms": mark["cpu"] * 1e3,
            "rss_mb": mark["rss"] / 1e6,
        }


_IMPORT = """
import resource, time
start = time.perf_counter()
import steersman
from steersman.k8s import Pod
wall = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
rss = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, rss / 1e6)
"""


def imports(_bench: Bench, peer: str, _size: Size, _seed: int) -> Numbers:
    """`import steersman` and the Pod type in a fresh interpreter (bytecode compiled before)."""
    del peer
    done = subprocess.run([sys.executable, "-c", _IMPORT], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(done.stderr[-1500:])
    wall, cpu, rss = map(float, done.stdout.split())
    return {"wall_ms": wall, "cpu_ms": cpu, "rss_mb": rss}


ALL = (OURS, THEIRS, KOPF)

ROWS: tuple[Row, ...] = (
    Row(
        "sync-widgets", "Initial sync, 50,000 custom resources of 1.2 KB", sync,
        Size("widgets", 50_000), Size("widgets", 5_000), (OURS, THEIRS, THEIRS + "+strip"),
        (Bar("cpu_us", 0.2), Bar("bytes", 0.3)),
    ),
    Row(
        "sync-pods", "Initial sync, 20,000 Pods of 5 KB with managedFields", sync,
        Size("pods", 20_000), Size("pods", 2_000), (OURS, THEIRS, THEIRS + "+strip"),
        (Bar("cpu_us", 0.2), Bar("bytes", 0.3)),
    ),
    Row(
        "first-pass", "Initial sync and first reconcile of each, 20,000 custom resources", first_pass,
        Size("widgets", 20_000), Size("widgets", 2_000),
    ),
    Row(
        "events-saturated", "Watch event, as fast as they can be read", events,
        Size("widgets", 20_000, 40_000), Size("widgets", 2_000, 4_000), ALL[:2], (Bar("cpu_us", 0.25),),
    ),
    Row(
        "events-50", "Watch event, 50 a second", events,
        Size("widgets", 1_000, 1_000, 50), Size("widgets", 200, 200, 50), ALL[:2], (Bar("cpu_us", 1.0),),
    ),
    Row(
        "reconcile-saturated", "Watch event and a reconcile that only reads, as fast as they can be read", reconciles,
        Size("widgets", 20_000, 40_000), Size("widgets", 2_000, 4_000), ALL[:2], (Bar("cpu_us", 0.25),),
    ),
    Row(
        "reconcile-50", "Watch event and a reconcile that only reads, 50 a second", reconciles,
        Size("widgets", 1_000, 1_000, 50), Size("widgets", 200, 200, 50), ALL[:2], (Bar("cpu_us", 1.0),),
    ),
    Row(
        "patch-saturated", "Update handled with one status PATCH, as fast as they come", patches,
        Size("widgets", 10_000, 10_000), Size("widgets", 500, 500), (OURS, THEIRS, KOPF_UVLOOP, PLAIN, KOPF),
        (Bar("cpu_us", 0.3), Bar("cpu_us", 1 / 30, KOPF_UVLOOP), Bar("cpu_us", 1 / 30, KOPF, PLAIN)),
        {KOPF: Size("widgets", 1_000, 1_000), KOPF_UVLOOP: Size("widgets", 1_000, 1_000)},
    ),
    Row(
        "patch-50", "Update handled with one status PATCH, 50 a second", patches,
        Size("widgets", 1_000, 1_000, 50), Size("widgets", 200, 200, 50), ALL,
    ),
    Row(
        "latency-500", "Event to reconcile at 500 events a second", reconciles,
        Size("widgets", 5_000, 5_000, 500), Size("widgets", 500, 500, 500), ALL[:2],
    ),
    Row(
        "memory-kopf", "Memory per object of a controller, 5,000 custom resources", first_pass,
        Size("widgets", 5_000), Size("widgets", 1_000), ALL, (Bar("bytes", 1 / 5, KOPF),),
    ),
    Row(
        "idle", "A controller with one object and nothing to do", idle,
        Size("widgets", 1, 20), Size("widgets", 1, 5), ALL,
    ),
    Row("cold-start", "From exec to the first reconcile", cold_start, Size(), Size(), ALL),
    Row(
        "import", "`import steersman` and the Pod type", imports, Size(), Size(), (OURS,),
        (Bar("wall_ms", 200, ""), Bar("rss_mb", 40, "")),
    ),
)  # fmt: skip
