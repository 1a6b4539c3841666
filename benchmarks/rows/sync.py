"""Initial sync and relist: what objects cost to read and to keep, over the same process with none.

Memory is RSS after the peer gave back what it could; the unsettled number, what a cluster would bill, stands beside it.
"""

from __future__ import annotations

import time

from benchmarks.harness import Bench, BenchmarkError, Mark, Peer
from benchmarks.rows.model import Numbers, Size
from benchmarks.rows.steps import at_rest, fill, settled, silent

Synced = tuple[Mark, Mark, Mark]
"""At the start, when all objects were in, and after settling."""


def sync(bench: Bench, peer: str, size: Size, seed: int, mode: str = "informer") -> Numbers:
    """CPU and memory of the initial sync, over those of the same peer with an empty collection."""
    start0, synced0, settled0 = _empty(bench, peer, size, seed, mode)
    start, synced, rest = _synced(bench, peer, size, seed, mode)
    n = size.objects
    cpu = (synced["cpu"] - start["cpu"]) - (synced0["cpu"] - start0["cpu"])
    memory = rest["rss"] - settled0["rss"]
    return {
        "cpu_us": cpu / n * 1e6,
        "bytes": memory / n,
        "bytes_unsettled": (synced["rss"] - settled0["rss"]) / n,
        "rss_mb": rest["rss"] / 1e6,
        "peak_mb": synced.get("peak", 0) / 1e6,
        "empty_rss_mb": settled0["rss"] / 1e6,
        "wall_s": synced["wall"] - start["wall"],
        "total_cpu_ms": cpu * 1e3,
        "total_mb": memory / 1e6,
    }


def first_pass(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The initial sync of a controller: list, and reconcile every object once without writing."""
    return sync(bench, peer, size, seed, mode="noop")


def _empty(bench: Bench, peer: str, size: Size, seed: int, mode: str) -> Synced:
    key = (peer, size.kind, mode, seed)
    if key not in bench.baselines:
        bench.baselines[key] = _synced(bench, peer, Size(size.kind), seed, mode)
    return bench.baselines[key]


def _synced(bench: Bench, peer: str, size: Size, seed: int, mode: str) -> Synced:
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, mode, **size.options) as process:
        starting = process.wait("starting")
        mark = settled(process, size, mode, count)
        if mode == "informer" and not silent(peer):
            mark = process.wait("synced")
        time.sleep(0.5)
        return starting, mark, process.ask("settle")


def namespaces(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The start of an informer that is confined to so many namespaces: all of it, with nothing subtracted."""
    start, synced, rest = _synced(bench, peer, size, seed, "informer")
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
