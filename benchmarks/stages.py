"""The CPU time of a single event: by stage, against the floor, and by system call.

    python -m benchmarks.stages            # writes benchmarks/stages.md; needs Go for the stub server, and strace

The stub server sends few events a second, so that each of them wakes the process. The stages are those of an event and
a reconcile that only reads, in plain Python and the event loop of the standard library (`peers/stages_peer`). The
floor is a program that only reads and decrypts the same events (`peers/floor_peer`).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.facts import described, machine
from benchmarks.harness import HERE, Peer, Stub, build

_REPORT: Final = HERE / "stages.md"
_OBJECTS: Final = 500
_RATES: Final = {100: 300, 10: 60}
"""Events a second, and how many of them."""
_SETTLE_SECONDS: Final = 7.0
"""Until the records of the initial list are compressed."""
_PEER: Final = ("steersman_peer", "--mode", "noop", "--asyncio")
_STAGES: Final = ("stages_peer", "--mode", "noop", "--asyncio")
_FLOORS: Final = {
    "a blocking socket": ("floor_peer", "--mode", "socket"),
    "an event loop": ("floor_peer", "--mode", "asyncio"),
}


class Run(NamedTuple):
    """Microseconds of CPU an event: of the whole process, and by stage."""

    total: float
    stages: Mapping[str, float]


def measured(stub: Stub, command: Sequence[str], rate: int, count: int) -> Run:
    """Run a peer with events at a rate."""
    with _started(stub, command) as peer:
        before, clocks = _marked(peer)
        stub.load("widgets", count, rate)
        time.sleep(count / rate)
        peer.until(lambda mark: mark["reconciles"] - before["reconciles"] >= count, 60, f"{count} events")
        after, spent = _marked(peer)
    stages = {stage: (spent[stage] - clocks.get(stage, 0)) / count / 1e3 for stage in spent}
    return Run((after["cpu"] - before["cpu"]) / count * 1e6, stages)


def system_calls(stub: Stub, command: Sequence[str], rate: int, count: int) -> dict[str, float]:
    """Return the system calls of a peer an event, by name; raises OSError without strace."""
    with _started(stub, command) as peer:
        before = peer.ask("mark")
        tracer = subprocess.Popen(["strace", "-f", "-c", "-p", str(peer.pid)], stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        stub.load("widgets", count, rate)
        time.sleep(count / rate + 0.5)
        tracer.terminate()
        told = tracer.communicate()[1]
        if (done := peer.ask("mark")["reconciles"] - before["reconciles"]) < count:
            raise RuntimeError(f"{done} of {count} events were seen")
    return {name: calls / count for name, calls in counted(told).items()}


def counted(told: str) -> dict[str, int]:
    """Return the calls by name of the table that `strace -c` prints."""
    rows = (line.split() for line in told.splitlines())
    return {
        row[-1]: int(row[3])
        for row in rows
        if len(row) >= 5 and row[0].replace(".", "").isdigit() and row[-1] != "total"
    }


class _started:  # noqa: N801 - a context manager
    """A peer that has reconciled all objects and compressed its records."""

    def __init__(self, stub: Stub, command: Sequence[str]) -> None:
        self._stub, self._command = stub, command

    def __enter__(self) -> Peer:
        self._stub.reset("widgets", _OBJECTS, 1)
        module, *options = self._command
        program = [sys.executable, "-m", f"benchmarks.peers.{module}", "--kubeconfig", str(self._stub.kubeconfig)]
        self._peer = Peer(module, [*program, *options])
        self._peer.wait("synced")
        self._peer.until(lambda mark: mark["seen"] >= _OBJECTS, 60, f"{_OBJECTS} objects")
        time.sleep(_SETTLE_SECONDS)
        self._peer.ask("settle")
        time.sleep(0.5)
        return self._peer

    def __exit__(self, *_error: object) -> None:
        self._peer.close()


def _marked(peer: Peer) -> tuple[Mapping[str, float], Mapping[str, int]]:
    mark = peer.ask("mark")
    return mark, peer.told("stages").get("spent", {})


def report(rounds: int, rates: Mapping[int, int]) -> Iterator[str]:
    """Measure, and yield the lines of the report."""
    stub = Stub(build("server", "stub-server"))
    try:
        yield from _report(stub, rounds, rates)
    finally:
        stub.close()


def _report(stub: Stub, rounds: int, rates: Mapping[int, int]) -> Iterator[str]:
    yield "<!-- Written by `python -m benchmarks.stages`. -->"
    yield "# Where the time of a single event goes"
    yield ""
    yield "Microseconds of CPU an event, with a reconcile that only reads, at few events a second: each event wakes the"
    yield "process. Plain Python without uvloop; medians of alternating processes. The clocks themselves cost time,"
    yield "which the row *without clocks* does not have."
    yield ""
    yield f"Measured on: {described({k: v for k, v in machine().items() if k in ('CPU', 'system', 'Python')})};"
    yield f"{rounds} processes of each."
    commands = {"with clocks": _STAGES, "without clocks": _PEER, **_FLOORS}
    runs: dict[tuple[str, int], list[Run]] = {}
    for _ in range(rounds):
        for name, command in commands.items():
            for rate, count in rates.items():
                runs.setdefault((name, rate), []).append(measured(stub, command, rate, count))
    yield ""
    yield from _head("stage", rates)
    stages = dict.fromkeys(stage for rate in rates for run in runs["with clocks", rate] for stage in run.stages)
    middle = {
        (stage, rate): statistics.median(run.stages.get(stage, 0.0) for run in runs["with clocks", rate])
        for stage in stages
        for rate in rates
    }
    for stage in sorted(stages, key=lambda stage: -middle[stage, min(rates)]):
        yield _line(stage, (middle[stage, rate] for rate in rates))
    for name in commands:
        title = f"the whole process, {name}" if name in ("with clocks", "without clocks") else f"the floor: {name}"
        yield _line(f"**{title}**", (statistics.median(run.total for run in runs[name, rate]) for rate in rates))
    yield from _calls(stub, min(rates.items()))


def _head(first: str, rates: Mapping[int, int]) -> Iterator[str]:
    yield f"| {first} | " + " | ".join(f"{rate} a second" for rate in rates) + " |"
    yield "|---|" + "---|" * len(rates)


def _line(name: str, values: Iterator[float]) -> str:
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |"


def _calls(stub: Stub, load: tuple[int, int]) -> Iterator[str]:
    yield ""
    if shutil.which("strace") is None:
        yield "System calls are not counted: there is no `strace`."
        return
    rate, count = load
    found = {
        name: system_calls(stub, command, rate, count)
        for name, command in {"operator": _PEER, "floor": _FLOORS["an event loop"]}.items()
    }
    yield f"System calls an event at {rate} a second (`strace -f -c`; the watchdog's thread checks once a second):"
    yield ""
    yield "| system call | an operator | the floor: an event loop |"
    yield "|---|---|---|"
    names = dict.fromkeys(name for calls in found.values() for name in calls)
    for name in sorted(names, key=lambda name: -found["operator"].get(name, 0.0)):
        yield f"| `{name}` | {found['operator'].get(name, 0.0):.2f} | {found['floor'].get(name, 0.0):.2f} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="processes of each program (default: 3)")
    parser.add_argument("--quick", action="store_true", help="few events, once: tests the program")
    parser.add_argument("--out", type=Path, default=_REPORT, metavar="FILE", help="the report (default: stages.md)")
    options = parser.parse_args(argv)
    rates, rounds = ({100: 20}, 1) if options.quick else (_RATES, options.rounds)
    options.out.write_text("\n".join(report(rounds, rates)) + "\n")
    print(options.out.read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
