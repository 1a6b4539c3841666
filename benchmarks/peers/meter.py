"""Counts what a Python peer did and answers the driver: one line on stdin, one JSON line on stdout.

`mark NAME` reports CPU, memory, counters and the latencies since the last report; `mark poll` costs little: it leaves
latencies and memory out and alone. `settle NAME` first gives back what memory it can and starts the high-water mark
anew. It uses the standard library only, so that it weighs the same in every peer.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator

STAMP = "bench.steersman.dev/sent-at"
POLL = "poll"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Meter:
    """The counters of one peer. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.seen = self.events = self.reconciles = self.patches = self.errors = 0
        self._stamps: list[tuple[str, int]] = []

    def stamped(self, stamp: str | None) -> None:
        """Note that an object is here which the server sent at that time (ns); what that means is worked out later."""
        if stamp:
            self._stamps.append((stamp, time.time_ns()))

    def mark(self, name: str) -> None:
        """Report on stdout; the latencies are left for the driver to ask for."""
        self._report(name, [])

    def _report(self, name: str, stamps: list[tuple[str, int]]) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        latencies = sorted(now - sent for stamp, now in stamps if (sent := int(stamp)))

        def at(q: float) -> float:
            return latencies[min(len(latencies) - 1, int(q * len(latencies)))] / 1e9 if latencies else 0.0

        line = {
            "mark": name,
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": 0 if name == POLL else _rss(),
            "peak": 0 if name == POLL else _peak(),
            "wall": time.time(),
            "seen": self.seen,
            "events": self.events,
            "reconciles": self.reconciles,
            "patches": self.patches,
            "errors": self.errors,
            "p50": at(0.5),
            "p99": at(0.99),
            "p999": at(0.999),
            "max": at(1.0),
            "latencies": len(latencies),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def obey(self) -> None:
        """Serve the driver from a daemon thread; the process ends when stdin closes."""
        faulthandler.register(signal.SIGUSR1)  # the driver asks a peer that hangs where it hangs
        threading.Thread(target=self._obey, name="meter", daemon=True).start()

    def _obey(self) -> None:
        for line in _commands():
            verb, _, name = line.partition(" ")
            if verb == "settle":
                gc.collect()
                _malloc_trim()
                _forget_peak()
            self._report(name, [] if name == POLL else self._taken())
        os._exit(0)

    def _taken(self) -> list[tuple[str, int]]:
        stamps, self._stamps = self._stamps, []
        return stamps


def _commands() -> Iterator[str]:
    # Not sys.stdin: a daemon thread that holds its lock would abort a process that ends in good order.
    rest = b""
    while chunk := os.read(0, 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode().strip()


def _rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * _PAGE


def _peak() -> int:
    """The largest RSS since the process began or last settled, in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _malloc_trim() -> None:
    # glibc keeps freed memory of its arenas; Go's FreeOSMemory is the same favour to the other side.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
