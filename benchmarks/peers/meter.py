"""Counts what a Python peer did and answers the driver: one line on stdin, one JSON line on stdout.

`mark NAME` reports CPU, memory and counters as they are; `settle NAME` first gives back what memory it can.
It uses the standard library only, so that it weighs the same in every peer.
"""

from __future__ import annotations

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

STAMP = "bench.steersman.dev/sent-at"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Meter:
    """The counters of one peer. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.seen = self.events = self.reconciles = self.patches = self.errors = 0
        self.latencies: list[int] = []

    def stamped(self, stamp: str | None) -> None:
        """Note the latency of an object by the time (ns) at which the server sent it."""
        if stamp and (sent := int(stamp)):
            self.latencies.append(time.time_ns() - sent)

    def mark(self, name: str) -> None:
        """Report on stdout."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        latencies, self.latencies = sorted(self.latencies), []

        def at(q: float) -> float:
            return latencies[min(len(latencies) - 1, int(q * len(latencies)))] / 1e9 if latencies else 0.0

        line = {
            "mark": name,
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": _rss(),
            "wall": time.time(),
            "seen": self.seen,
            "events": self.events,
            "reconciles": self.reconciles,
            "patches": self.patches,
            "errors": self.errors,
            "p50": at(0.5),
            "p99": at(0.99),
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
        for line in sys.stdin:
            verb, _, name = line.strip().partition(" ")
            if verb == "settle":
                gc.collect()
                _malloc_trim()
            self.mark(name)
        os._exit(0)


def _rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * _PAGE


def _malloc_trim() -> None:
    # glibc keeps freed memory of its arenas; Go's FreeOSMemory is the same favour to the other side.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
