"""The causes of late events with a real kube-apiserver: `python -m benchmarks.late_events` writes late-events.md.

The load is that of the row `real-patch-50`. Our peer records what its event loop did, in plain Python; the driver
records when each request of the writers was answered, the stalls of the host, and the garbage collections of the
server. Rounds alternate with controller-runtime, whose events have no causes here. It needs Go and what
`make controlplane` builds; five rounds take about six minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.facts import described, machine
from benchmarks.go_traces import TRACED, Watcher, traced_binaries
from benchmarks.harness import HERE, Bench, BenchmarkError, Mark, Peer, Stub, build, cores
from benchmarks.late_causes import IN_SERVER, Event, Period, Records, causes
from benchmarks.real_server import RealServer
from benchmarks.rows import OURS, THEIRS, Size
from benchmarks.rows.steps import fill, settled
from benchmarks.stalls import probe

_REPORT: Final = HERE / "late-events.md"
_SIZE: Final = Size("widgets", 4_000, 500, 50)
_QUICK: Final = Size("widgets", 400, 100, 50)
_LATE_NS: Final = 20_000_000
_MAX_ROWS: Final = 200
"""Late events that the report lists, the latest first."""
_OBSERVED: Final = "benchmarks.peers.observed_peer"


@dataclass(frozen=True)
class Round:
    """One process of a peer: its latencies in seconds, and of ours the events with what was recorded."""

    peer: str
    number: int
    numbers: Mark
    began: int = 0
    events: Sequence[Event] = ()
    records: Records = field(default_factory=Records)

    @property
    def late(self) -> list[Event]:
        """The late events in the order of time."""
        return sorted((event for event in self.events if event.late > _LATE_NS), key=lambda event: event.sent)


def rounds(size: Size, count: int) -> Iterator[Round]:
    """Measure both peers in turn."""
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as directory, traced_binaries(Path(directory)):
        server = RealServer(Stub(build("server", "stub-server")))
        bench = Bench(server)
        try:
            for number in range(1, count + 1):
                yield _ours(bench, server, size, number)
                yield _theirs(bench, size, number)
        finally:
            bench.close()


def _theirs(bench: Bench, size: Size, number: int) -> Round:
    objects = fill(bench, THEIRS, size, number)
    with bench.peer(THEIRS, size.kind, "patch") as peer:
        return Round(THEIRS, number, _loaded(bench, peer, size, objects)[0])


def _ours(bench: Bench, server: RealServer, size: Size, number: int) -> Round:
    objects = fill(bench, OURS, size, number)
    command = [sys.executable, "-m", _OBSERVED, "--kubeconfig", str(server.kubeconfig), "--mode", "patch", "--asyncio"]
    peer = Peer(OURS, command)
    both = cores()
    try:
        peer.wait("starting", 60)
        logs = {name: server.plane.log(name) for name in TRACED}
        with probe(both[0] | both[1]) as watching, Watcher(logs, both[0]) as watcher:
            mark, began = _loaded(bench, peer, size, objects)
            stalls = watching.stalls() or []
        observed = peer.told("observed")
    finally:
        peer.close()
    ahead = time.time_ns() - time.monotonic_ns()
    records = Records(
        busy=_pairs(observed["busy"]),
        work={name: _pairs(periods) for name, periods in observed["work"].items()},
        delayed=[(begin, end, missed) for begin, end, missed in observed["delayed"]],
        saturated=_pairs(observed["saturated"]),
        stalls=[(round(due * 1e9) + ahead, round(woke * 1e9) + ahead) for core in stalls for due, woke in core],
        server_collections=watcher.periods("kube-apiserver"),
        etcd_collections=watcher.periods("etcd"),
    )
    return Round(OURS, number, mark, began, _events(server.plane.answered, observed), records)


def _loaded(bench: Bench, peer: Peer, size: Size, objects: int) -> tuple[Mark, int]:
    """Return the latencies of a load, and when it began (ns)."""
    settled(peer, size, "patch", objects)
    peer.ask("settle")
    time.sleep(1)
    before, began = peer.ask("mark"), time.time_ns()
    bench.stub.load(size.kind, size.events, size.rate)
    time.sleep(size.events / size.rate)
    peer.until(lambda mark: mark["reconciles"] - before["reconciles"] >= size.events, 60, f"{size.events} reconciles")
    return peer.ask("mark"), began


def _pairs(periods: Sequence[Sequence[int]]) -> list[Period]:
    return [(begin, end) for begin, end in periods]


def _events(answered: Mapping[str, int], observed: Mapping[str, Any]) -> list[Event]:
    """Return the events of a load. Raises BenchmarkError if one was not seen."""
    read, reconciled = observed["read"], observed["reconciled"]
    if missing := [stamp for stamp in answered if stamp not in read or stamp not in reconciled]:
        raise BenchmarkError(f"{len(missing)} of {len(answered)} events were not observed")
    return [Event(int(stamp), done, read[stamp], reconciled[stamp]) for stamp, done in answered.items()]


def report(measured: Sequence[Round]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield "<!-- Written by `python -m benchmarks.late_events`. -->"
    yield "# Why events come late"
    yield ""
    yield "Updates at 50 a second with a real kube-apiserver (the load of the row `real-patch-50`), and each event"
    yield "of our peer that was reconciled more than 20 ms after the writer sent its request. Our peer is plain Python"
    yield "with the event loop of the standard library, because compiled functions cannot be observed. Server, etcd and"
    yield "writers share one core, and the peer has the other."
    yield ""
    facts = machine()
    yield f"Measured on: {described({name: facts[name] for name in ('CPU', 'system', 'Python') if name in facts})}."
    yield ""
    yield "| round | peer | p50 | p99 | longest | later than 20 ms |"
    yield "|---|---|---|---|---|---|"
    for one in measured:
        numbers = " | ".join(f"{one.numbers[name] * 1e3:.1f} ms" for name in ("p50", "p99", "max"))
        late = f"{len(one.late)} of {len(one.events)}" if one.events else ""
        yield f"| {one.number} | {one.peer} | {numbers} | {late} |"
    ours = [one for one in measured if one.events]
    explained = [(one, event, causes(event, one.records)) for one in ours for event in one.late]
    yield from _parts([event for one in ours for event in one.events])
    yield from _summary([found for _, _, found in explained])
    yield from _longest(ours)
    yield from _each(explained)


def _parts(events: Sequence[Event]) -> Iterator[str]:
    """The two parts of the way of all events of our peer."""
    yield ""
    yield "| part of the way, all events of our peer | p50 | p99 | longest |"
    yield "|---|---|---|---|"
    parts = {
        "from the writer's request until the operator reads the event": [one.read - one.sent for one in events],
        "from the read until the reconcile": [one.reconciled - one.read for one in events],
    }
    for name, lengths in parts.items():
        ordered = sorted(lengths)
        yield f"| {name} | " + " | ".join(_ms(ordered[int(q * (len(ordered) - 1))]) for q in (0.5, 0.99, 1)) + " |"


def _summary(explained: Sequence[Mapping[str, int]]) -> Iterator[str]:
    yield ""
    yield "## Causes"
    yield ""
    if not explained:
        yield "No event was later than 20 ms."
        return
    yield "The cause with the most time of an event is responsible for it."
    yield ""
    yield "| responsible | late events | median of its time | longest |"
    yield "|---|---|---|---|"
    by_cause: dict[str, list[int]] = {}
    for found in explained:
        cause = max(found, key=lambda name: found[name])
        by_cause.setdefault(cause, []).append(found[cause])
    for cause, spent in sorted(by_cause.items(), key=lambda one: -len(one[1])):
        yield f"| {cause} | {len(spent)} | {_ms(statistics.median(spent))} | {_ms(max(spent))} |"
    within = [sum(spent for cause, spent in found.items() if cause not in IN_SERVER) for found in explained]
    yield ""
    median, longest = _ms(statistics.median(within)), _ms(max(within))
    yield f"Outside of the server, a late event spent {median} (median), and {longest} at most."


def _longest(ours: Sequence[Round]) -> Iterator[str]:
    """Return the longest work of the operator, with or without late events."""
    yield ""
    yield "The longest in the process of the operator during all rounds, whether an event came late by it or not:"
    yield ""
    yield "| what | times | longest |"
    yield "|---|---|---|"
    names = dict.fromkeys(name for one in ours for name in one.records.work)
    for name in names:
        yield _row_of(name, [end - begin for one in ours for begin, end in one.records.work[name]])
    yield _row_of("callbacks of the event loop without a wait", [e - b for one in ours for b, e in one.records.busy])


def _row_of(name: str, lengths: Sequence[int]) -> str:
    return f"| {name} | {len(lengths)} | {_ms(max(lengths, default=0))} |"


def _each(explained: Sequence[tuple[Round, Event, Mapping[str, int]]]) -> Iterator[str]:
    if not explained:
        return
    yield ""
    yield "## Each late event"
    yield ""
    if len(explained) > _MAX_ROWS:
        yield f"The latest {_MAX_ROWS} of {len(explained)}."
        yield ""
    chosen = sorted(explained, key=lambda one: -one[1].late)[:_MAX_ROWS]
    yield "| round | at | late | until answered | until read | until reconciled | causes |"
    yield "|---|---|---|---|---|---|---|"
    for one, event, found in sorted(chosen, key=lambda each: (each[0].number, each[1].sent)):
        times = (event.late, event.answered - event.sent, event.read - event.sent, event.reconciled - event.sent)
        shares = sorted(found.items(), key=lambda share: -share[1])
        said = "; ".join(f"{name} {_ms(spent)}" for name, spent in shares if spent >= 1e6)
        at = f"{(event.sent - one.began) / 1e9:.2f} s"
        yield f"| {one.number} | {at} | " + " | ".join(map(_ms, times)) + f" | {said} |"


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.late_events", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=5, help="processes of each peer (default: 5)")
    parser.add_argument("--quick", action="store_true", help="few objects and events, once: tests the program")
    parser.add_argument(
        "--out", type=Path, default=_REPORT, metavar="FILE", help="the report (default: late-events.md)"
    )
    options = parser.parse_args(argv)
    size, count = (_QUICK, 1) if options.quick else (_SIZE, options.rounds)
    options.out.write_text("\n".join(report(list(rounds(size, count)))) + "\n")
    print(options.out.read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
