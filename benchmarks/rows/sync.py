"""Initial sync and relist: what objects cost to read and to keep, over the same process with none.

A process that runs already is made to list by ending its watches with 410 Expired: so nothing of its start is in the
numbers. Memory is RSS after the peer gave back what it could; the unsettled number, what a cluster would bill, stands
beside it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.harness import Bench, BenchmarkError, Mark, Peer
from benchmarks.rows.model import Numbers, Size
from benchmarks.rows.steps import at_rest, costs, fill, settled

FEW = 30_000
"""For fewer objects, the cost of another list is subtracted; for more, it is less than 0.5 %."""
_QUIET = 0.3
"""Seconds without work after which a list has been taken in."""
_PAUSE = 0.02
_PAUSE_EACH = 4e-6
"""Seconds between two looks at a peer, and what each object adds: an answer takes a peer 0.2 to 0.3 ms, which shall not
be one in fifty of what is measured."""


class Listing(NamedTuple):
    """The cost of a list for a process: CPU and wall seconds; and the process after it."""

    cpu: float
    wall: float
    after: Mark


def sync(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """CPU, memory and time that objects take when a process lists them for the first time.

    The process has synced with an empty collection; then that has all objects, and its watches end. CPU counts until
    the process has come to rest. Of few objects, what the same takes with none is subtracted.
    """
    fill(bench, peer, Size(size.kind), seed)
    with bench.peer(peer, size.kind, "informer", **size.options) as process:
        settled(process, size, "informer", 0)
        time.sleep(_QUIET)
        empty = process.ask("settle")["rss"]
        nothing = listed(bench, process, size, 0).cpu if size.objects < FEW else 0.0
        count = fill(bench, peer, size, seed, quietly=True)
        everything = listed(bench, process, size, count)
        numbers = costs(size.objects, everything.cpu - nothing, empty, everything.after, process.ask("settle"))
    if size.kind == "mixed":  # of several kinds each is listed when its client comes round to it
        return numbers
    return {**numbers, "wall_s": everything.wall}


def listed(bench: Bench, process: Peer, size: Size, count: int) -> Listing:
    """Make a process that has nothing list `count` objects."""
    before = at_rest(process, "seen", quiet=_QUIET)
    asked = expire(bench, process, size.kind, count)
    pause = _PAUSE + _PAUSE_EACH * count
    new = process.until(lambda m: _told(m) - _told(before) >= count, 90, f"seeing {count} objects", pause=pause)
    at_rest(process, "seen", quiet=_QUIET)
    after = process.ask("mark")
    if _told(after) - _told(before) != count:
        raise BenchmarkError(f"{process.name} saw {_told(after) - _told(before)} objects of {count}")
    return Listing(after["cpu"] - before["cpu"], new["wall"] - asked, after)


def _told(mark: Mark) -> float:
    """Return the number of handler calls; kube-rs does not distinguish new objects."""
    return mark["seen"] + mark["events"]


def relist(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A watch that ends with 410 Expired: everything is listed again beside what is cached.

    That the peer is back is shown by events that it must see afterwards, each once.
    """
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, "informer", **size.options) as process:
        settled(process, size, "informer", count)
        time.sleep(0.5)
        before = process.ask("settle")
        expire(bench, process, size.kind, count)
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


def expire(bench: Bench, process: Peer, kind: str, count: int) -> float:
    """End a peer's watches, and wait until it has been sent `count` objects anew and watches again; when it asked."""
    before = bench.stub.counters()
    bench.stub.expire(kind)
    deadline = time.monotonic() + 60
    while True:
        now = bench.stub.counters()
        asked = now["watches"] >= before["watches"] + _watching(before) and _watching(now) >= _watching(before)
        if asked and now["listed"] >= before["listed"] + count:
            return now["asked"] / 1e9
        if time.monotonic() > deadline:
            raise process.failed("did not list and watch again within 60 s of 410 Expired")
        time.sleep(0.01)


def _watching(counters: Mapping[str, float]) -> float:
    """Return the number of watches."""
    return sum(n for name, n in counters.items() if name.startswith("watchers/"))
