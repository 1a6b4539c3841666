"""The costs of events: reads, reconciles, a PATCH or the apply of children; and the delay of events.

Every run shows that nothing was lost: each event was seen, each reconcile took place, and the server received each
write. Latency is from the server's stamp in the object to the reconcile that reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from benchmarks.harness import Bench, BenchmarkError, Mark, Peer, cores
from benchmarks.metrics import STALLED
from benchmarks.rows.model import CEILING, OURS, THEIRS, Numbers, Size
from benchmarks.rows.steps import at_rest, fill, settled, silent
from benchmarks.stalls import probe

_PAUSE = 0.1
"""Seconds between polls: each costs a peer 0.2 to 0.3 ms."""


def events(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch event: decoded, stored, told to a handler that counts. No controller."""
    return _loaded(bench, peer, size, seed, "informer")


def reconciles(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch event that is also queued, and reconciled by a controller that reads the object and writes nothing."""
    return _loaded(bench, peer, size, seed, "noop")


def latencies(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """`reconciles` at a rate, and how long the host let cores stand still meanwhile, where that can be told."""
    server_cores, peer_cores = cores()
    with probe(server_cores | peer_cores) as watching:
        numbers = _loaded(bench, peer, size, seed, "noop", watching.sleep)
        stalled = watching.stalled()
    return numbers if stalled is None else {**numbers, STALLED: stalled}


def patches(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """The full life of an update: event, reconcile, one status PATCH, and the echo of that."""
    return _loaded(bench, peer, size, seed, "patch")


def applies(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """An event, and a reconcile that makes sure of three children with nothing to change."""
    return _loaded(bench, peer, size, seed, "apply")


def backlog(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """Events that the server sends as fast as it can, however far the peer falls behind."""
    bench.stub.control("POST", "/options?behind=0")
    try:
        return _loaded(bench, peer, size, seed, "noop")
    finally:
        bench.stub.control("POST", f"/options?behind={_BEHIND}")


def controllers(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """Events for so many controllers of one kind, each of which reconciles each of them; the CPU of all together."""
    numbers = _loaded(bench, peer, size, seed, "noop")
    return {**numbers, "total_cpu_ms": numbers["cpu_us"] * size.events / 1e3, "total_mb": numbers["rss_mb"]}


_BEHIND = 8 << 20
"""The bytes that a watcher may lag before a load waits for it, as the server begins with."""


def _loaded(
    bench: Bench, peer: str, size: Size, seed: int, mode: str, sleep: Callable[[float], None] = time.sleep
) -> dict[str, float]:
    """`sleep` lasts while events come at their rate."""
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, mode, **size.options) as process:
        settled(process, size, mode, count)
        if mode == "apply":
            at_rest(process, "reconciles")  # children come back as events, too
        if size.rate:  # let the initial work's garbage go, so that it is not counted as the events'
            process.ask("settle")
            time.sleep(1)
        at_start = bench.stub.counters()
        before = process.ask("mark")
        bench.stub.load(size.kind, size.events, size.rate)
        if size.rate:
            sleep(size.events / size.rate)
        last = _done(process, size, mode, before)
        if mode == "patch":
            last = _written(bench, process, size, _writes(at_start)) or last
        after = process.ask("mark")
        at_end = bench.stub.counters()
        _check(process, size, mode, before, after)
        written = _writes(at_end) - _writes(at_start)
        _check_writes(peer, mode, written)
        numbers = {
            "cpu_us": (after["cpu"] - before["cpu"]) / size.events * 1e6,
            "rss_mb": after["rss"] / 1e6,
            "server_cpu_us": (at_end["cpuSeconds"] - at_start["cpuSeconds"]) / size.events * 1e6,
        }
        if not size.rate:
            numbers["per_s"] = size.events / (last["wall"] - before["wall"])
        if after["latencies"]:
            for name in ("p50", "p99", "p999", "max"):
                numbers[f"{name}_ms"] = after.get(name, 0.0) * 1e3
        if mode in ("patch", "apply"):
            numbers["requests_per_update"] = written / size.events
        return numbers


def _done(process: Peer, size: Size, mode: str, before: Mark) -> Mark:
    """Wait for every event, and for every reconcile that they are to lead to."""
    wanted = size.events
    seen = mode == "informer" or (mode == "noop" and not silent(process.name))
    due = 0 if mode == "informer" else _due(size)

    def done(m: Mark) -> bool:
        return (not seen or m["events"] - before["events"] >= wanted) and m["reconciles"] - before["reconciles"] >= due

    return process.until(done, 240, f"{wanted} events and {due} reconciles", _PAUSE)


def _due(size: Size) -> int:
    # An object that changes again before its turn comes is reconciled once for both.
    return min(size.events, size.objects) * size.controllers


def _written(bench: Bench, process: Peer, size: Size, wrote: int) -> Mark | None:
    """Wait until the server has received every write and the peer has seen their echoes."""
    deadline = time.monotonic() + 60
    last = None
    while (written := _writes(bench.stub.counters()) - wrote) < min(size.events, size.objects):
        if time.monotonic() > deadline:
            raise process.failed(f"wrote {written} of {size.events} status patches")
        time.sleep(_PAUSE)
        last = process.poll()
    time.sleep(0.5)  # the echoes of the last writes
    return last


def _writes(counters: Mapping[str, int]) -> int:
    return sum(counters.get(verb, 0) for verb in ("patches", "applies", "posts", "puts", "deletes"))


def _check(process: Peer, size: Size, mode: str, before: Mark, after: Mark) -> None:
    if errors := after["errors"] - before["errors"]:
        raise BenchmarkError(f"{process.name} met {errors} errors")
    if mode == "informer" and (seen := after["events"] - before["events"]) != size.events:
        raise BenchmarkError(f"{process.name} saw {seen} events of {size.events}")
    if mode != "informer":
        done = after["reconciles"] - before["reconciles"]
        if done < _due(size):
            raise BenchmarkError(f"{process.name} reconciled {done} times, {_due(size)} were due")
        if after["latencies"] < _due(size) and process.name not in CEILING:  # those read no stamps
            raise BenchmarkError(f"{process.name} noted {after['latencies']} latencies of {_due(size)} reconciles")


def _check_writes(peer: str, mode: str, written: int) -> None:
    # A peer with server-side apply sends its intent each time; a peer that reads its cache first sends nothing.
    if written and (mode in ("informer", "noop") or (mode == "apply" and peer.partition("+")[0] in (OURS, THEIRS))):
        raise BenchmarkError(f"{peer} wrote {written} times where no write was due")
