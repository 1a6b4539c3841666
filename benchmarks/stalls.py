"""The time for which the host kept cores from running during a measurement.

A virtual core that its host does not run stands still for all processes: a stall of 50 ms is the p99 of five
seconds of events, and says nothing of the program that met it. The kernel counts a part of such time as `steal`, and
often none. So a process of a few lines sleeps 2 ms on each core, again and again, before anything else that is there
(`SCHED_FIFO`): what it wakes late, the core stood still. It takes less than a hundredth of a core, from every peer.

Run as a script (`stalls.py CORE`), this file is that process; it imports nothing of the benchmarks.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

Stall = tuple[float, float]
"""The planned and the real time of a wake-up, in seconds of the monotonic clock, which all processes share."""
_PERIOD = 0.002
_READY = "ready\n"
_LATE = 0.001
"""Waking up takes some of this on any machine, and is no stall."""


class Probe:
    """One process a core that notes stalls from now on, and the measured time in which they count."""

    def __init__(self, cores: Iterable[int]) -> None:
        """The processes run, or it is known that the kernel does not let them go first, when this returns."""
        self._windows: list[tuple[float, float]] = []
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-S", "-E", __file__, str(core)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for core in sorted(set(cores))
        ]  # fmt: skip
        said = [_line(process) for process in self.processes]
        self._known = all(line == _READY for line in said)

    def sleep(self, seconds: float) -> None:
        """Sleep; the stalls of this time count."""
        began = time.monotonic()
        time.sleep(seconds)
        self._windows.append((began, time.monotonic()))

    def stalled(self) -> float | None:
        """Ends the probe: which part of the time slept the cores stood still, in percent; None where it cannot tell."""
        by_core = self.stalls()
        return None if by_core is None else stalled(by_core, self._windows)

    def stalls(self) -> list[list[Stall]] | None:
        """Ends the probe: the stalls of each core; None where it cannot tell."""
        outputs = [process.communicate(timeout=10)[0] for process in self.processes]
        if not self._known:
            return None
        return [[(due, woke) for due, woke in json.loads(output)] for output in outputs]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@contextlib.contextmanager
def probe(cores: Iterable[int]) -> Iterator[Probe]:
    """A probe that leaves no process behind."""
    watching = Probe(cores)
    try:
        yield watching
    finally:
        watching.close()


def stalled(by_core: Iterable[Iterable[Stall]], windows: Sequence[tuple[float, float]]) -> float:
    """Which part of the windows, in seconds of one clock, cores stood still, in percent; that of all cores together."""
    late = sum(
        max(0.0, min(woke, ended) - max(due, began))
        for stalls in by_core
        for due, woke in stalls
        for began, ended in windows
    )  # fmt: skip
    return 100 * late / sum(ended - began for began, ended in windows)


def _watch(core: int) -> list[Stall]:
    """Sleep until standard input ends; what was late."""
    found: list[Stall] = []
    while True:
        due = time.monotonic() + _PERIOD
        ended, _, _ = select.select([sys.stdin], [], [], _PERIOD)
        woke = time.monotonic()
        if woke - due > _LATE:
            found.append((due, woke))
        if ended:
            return found


def _main() -> None:
    core = int(sys.argv[1])
    try:
        os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:  # not allowed, or no such core
        return
    print(_READY, end="", flush=True)
    print(json.dumps(_watch(core)), flush=True)


if __name__ == "__main__":
    _main()
