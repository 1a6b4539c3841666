"""Initial sync and relist: what objects cost to read and to keep, over the same process with none.

Memory is RSS after the peer gave back what it could; the unsettled number, what a cluster would bill, stands beside it.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from benchmarks.harness import Bench, BenchmarkError, Mark, Peer
from benchmarks.rows.model import Numbers, Size
from benchmarks.rows.steps import at_rest, fill, settled, silent

Synced = tuple[Mark, Mark, Mark]
"""At the start, when all objects were in, and after settling."""
PROCESSES = 3
"""So many are run where one process by itself takes more than its objects."""


@dataclass
class _Empty:
    """What all processes of one peer took so far that had nothing to read: CPU seconds; by run, memory when settled."""

    cpu: list[float] = field(default_factory=list[float])
    rss: dict[int, float] = field(default_factory=dict[int, float])


def sync(
    bench: Bench, peer: str, size: Size, seed: int, mode: str = "informer", processes: int = 1
) -> Numbers:  # fmt: skip
    """CPU and memory of the initial sync, over those of the same peer with an empty collection.

    CPU is the mean of so many `processes`. What is subtracted is the mean of all with an empty collection, of this run
    and those before it.
    """
    empty = _empty(bench, peer, size, seed, mode, processes)
    (start, synced, rest), spent = _measured(bench, peer, size, seed, mode, processes)
    n, empty_rss = size.objects, statistics.fmean(empty.rss.values())
    cpu = statistics.fmean(spent) - statistics.fmean(empty.cpu)
    memory = rest["rss"] - empty_rss
    return {
        "cpu_us": cpu / n * 1e6,
        "bytes": memory / n,
        "bytes_unsettled": (synced["rss"] - empty_rss) / n,
        "rss_mb": rest["rss"] / 1e6,
        "peak_mb": synced.get("peak", 0) / 1e6,
        "empty_rss_mb": empty_rss / 1e6,
        "wall_s": synced["wall"] - start["wall"],
        "total_cpu_ms": cpu * 1e3,
        "total_mb": memory / 1e6,
    }


def sync_few(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The initial sync of few objects: between two single processes, the difference would be noise."""
    return sync(bench, peer, size, seed, processes=PROCESSES)


def first_pass(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The initial sync of a controller: list, and reconcile every object once without writing."""
    return sync(bench, peer, size, seed, mode="noop")


def _empty(bench: Bench, peer: str, size: Size, seed: int, mode: str, processes: int) -> _Empty:
    empty: _Empty = bench.baselines.setdefault((peer, size.kind, mode), _Empty())
    if seed not in empty.rss:
        (_, _, rest), spent = _measured(bench, peer, Size(size.kind), seed, mode, processes)
        empty.cpu += spent
        empty.rss[seed] = rest["rss"]
    return empty


def _measured(
    bench: Bench, peer: str, size: Size, seed: int, mode: str, processes: int = 1
) -> tuple[Synced, list[float]]:
    """One process, and the CPU seconds that it and further ones took for the sync of the same objects."""
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, mode, **size.options) as process:
        start, synced = _synced(process, size, mode, count)
        time.sleep(0.5)
        marks = start, synced, process.ask("settle")
    spent = [synced["cpu"] - start["cpu"]]
    for _ in range(processes - 1):
        with bench.peer(peer, size.kind, mode, **size.options) as process:
            start, synced = _synced(process, size, mode, count)
        spent.append(synced["cpu"] - start["cpu"])
    return marks, spent


def _synced(process: Peer, size: Size, mode: str, count: int) -> tuple[Mark, Mark]:
    """At the start, and when all objects were in."""
    starting = process.wait("starting")
    mark = settled(process, size, mode, count)
    return starting, process.wait("synced") if mode == "informer" and not silent(process.name) else mark


def namespaces(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The start of an informer that is confined to so many namespaces: all of it, with nothing subtracted."""
    (start, synced, rest), _ = _measured(bench, peer, size, seed, "informer")
    return {
        "total_cpu_ms": (synced["cpu"] - start["cpu"]) * 1e3,
        "total_mb": (rest["rss"] - start["rss"]) / 1e6,
        "rss_mb": rest["rss"] / 1e6,
        "wall_s": synced["wall"] - start["wall"],
    }


def relist(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch that ends with 410 Expired: everything is listed again beside what is cached.

    That the peer is back is shown by events that it must see afterwards, each once.
    """
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, "informer", **size.options) as process:
        settled(process, size, "informer", count)
        time.sleep(0.5)
        before = process.ask("settle")
        listed = bench.stub.counters()["listed"]
        bench.stub.expire(size.kind)
        _listed_again(bench, process, size, listed + count)
        quiet = at_rest(process, "events")
        after = process.ask("mark")
        bench.stub.load(size.kind, size.events, 0)
        process.until(lambda m: m["events"] - quiet["events"] >= size.events, 60, f"{size.events} events")
        time.sleep(0.2)
        seen = process.poll()["events"] - quiet["events"]
        if seen != size.events:
            raise BenchmarkError(f"{peer} saw {seen} events of {size.events} after its relist")
    return {
        "peak_mb": after["peak"] / 1e6,
        "steady_mb": before["rss"] / 1e6,
        "peak_over_bytes": (after["peak"] - before["rss"]) / count,
        "peak_ratio": after["peak"] / before["rss"],
        "cpu_us": (after["cpu"] - before["cpu"]) / count * 1e6,
    }


def _listed_again(bench: Bench, process: Peer, size: Size, listed: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        now = bench.stub.counters()
        if now["listed"] >= listed and now.get(f"watchers/{size.kind}", 0):
            return
        if time.monotonic() > deadline:
            raise process.failed("did not list and watch again within 60 s of 410 Expired")
        time.sleep(0.05)
