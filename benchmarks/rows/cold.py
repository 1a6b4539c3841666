"""The sync of a process that has just started: all of it, or what its objects take over the same with none.

Where the server cannot make a running process list anew, or the first reconcile is to be measured, too.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from benchmarks.harness import Bench, Mark, Peer
from benchmarks.rows.model import Numbers, Size
from benchmarks.rows.steps import costs, fill, settled, silent

Synced = tuple[Mark, Mark, Mark]
"""At the start, when all objects were in, and after settling."""


@dataclass
class _Empty:
    """The costs of all processes of one peer without objects: CPU seconds; by run, memory when settled."""

    cpu: list[float] = field(default_factory=list[float])
    rss: dict[int, float] = field(default_factory=dict[int, float])


def cold_sync(bench: Bench, peer: str, size: Size, seed: int, mode: str = "informer") -> Numbers:
    """CPU and memory from the start to the end of the initial sync, over those of the same peer with nothing to read.

    What is subtracted is the mean of all processes with an empty collection, of this run and those before it.
    """
    empty = _empty(bench, peer, size, seed, mode)
    start, synced, rest = _measured(bench, peer, size, seed, mode)
    cpu = synced["cpu"] - start["cpu"] - statistics.fmean(empty.cpu)
    numbers = costs(size.objects, cpu, statistics.fmean(empty.rss.values()), synced, rest)
    return {**numbers, "wall_s": synced["wall"] - start["wall"]}


def first_pass(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The initial sync of a controller: list, and reconcile every object once without writing."""
    return cold_sync(bench, peer, size, seed, mode="noop")


def namespaces(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The start of an informer that is confined to so many namespaces: all of it, with nothing subtracted."""
    start, synced, rest = _measured(bench, peer, size, seed, "informer")
    return {
        "total_cpu_ms": (synced["cpu"] - start["cpu"]) * 1e3,
        "total_mb": (rest["rss"] - start["rss"]) / 1e6,
        "rss_mb": rest["rss"] / 1e6,
        "wall_s": synced["wall"] - start["wall"],
    }


def _empty(bench: Bench, peer: str, size: Size, seed: int, mode: str) -> _Empty:
    empty: _Empty = bench.baselines.setdefault((peer, size.kind, mode), _Empty())
    if seed not in empty.rss:
        start, synced, rest = _measured(bench, peer, Size(size.kind), seed, mode)
        empty.cpu.append(synced["cpu"] - start["cpu"])
        empty.rss[seed] = rest["rss"]
    return empty


def _measured(bench: Bench, peer: str, size: Size, seed: int, mode: str) -> Synced:
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, mode, **size.options) as process:
        start, synced = _synced(process, size, mode, count)
        time.sleep(0.5)
        return start, synced, process.ask("settle")


def _synced(process: Peer, size: Size, mode: str, count: int) -> tuple[Mark, Mark]:
    """At the start, and when all objects were in."""
    starting = process.wait("starting")
    mark = settled(process, size, mode, count)
    return starting, process.wait("synced") if mode == "informer" and not silent(process.name) else mark
