"""A process' life beside its work: how soon it works, what it takes while there is nothing to do, how it ends."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.harness import ROOT, Bench, BenchmarkError
from benchmarks.procfs import cpu_seconds, proportional_bytes, wakeups
from benchmarks.rows.model import Numbers, Size
from benchmarks.rows.steps import fill, settled, silent

_PAUSE = 0.5
"""Seconds after the last question to a peer, before its wake-ups are counted."""


def idle(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """A controller with one object and nothing to do, for so many seconds as the size has events.

    CPU time and wake-ups are the kernel's; nothing is asked of the peer meanwhile.
    """
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, "patch") as process:
        settled(process, size, "patch", count)
        settled_mark = process.ask("settle")
        time.sleep(_PAUSE)
        began, woken, used = time.monotonic(), wakeups(process.pid), cpu_seconds(process.pid)
        time.sleep(size.events)
        seconds = time.monotonic() - began
        return {
            "rss_mb": settled_mark["rss"] / 1e6,
            "pss_mb": proportional_bytes(process.pid) / 1e6,
            "cpu_ms_per_s": (cpu_seconds(process.pid) - used) / seconds * 1e3,
            "wakeups_per_min": (wakeups(process.pid) - woken) / seconds * 60,
        }


def cold_start(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """From exec to the first reconcile of a waiting object (for kopf: until it has seen it)."""
    fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, "noop") as process:
        if silent(peer):
            mark = process.until(lambda m: m["seen"] >= 1, 30, "seeing the object", 0.02)
        else:
            mark = process.wait("first-reconcile", 60)
        return {
            "wall_ms": (mark["wall"] - process.started) * 1e3,
            "cpu_ms": mark["cpu"] * 1e3,
            "rss_mb": mark["rss"] / 1e6,
        }


def shutdown(bench: Bench, peer: str, size: Size, seed: int) -> Numbers:
    """From SIGTERM to the end of a controller that has nothing to do, and the CPU that it takes for that."""
    count = fill(bench, peer, size, seed)
    with bench.peer(peer, size.kind, "patch") as process:
        settled(process, size, "patch", count)
        time.sleep(0.5)
        wall, cpu = process.terminate()
        return {"shutdown_ms": wall * 1e3, "shutdown_cpu_ms": cpu * 1e3}


_IMPORT = """
import benchmarks.peers.core_installation, resource, time
start, used = time.perf_counter(), time.process_time()
from steersman import Context, Model, Operator, Resource
wall, cpu = time.perf_counter() - start, time.process_time() - used
rss = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(wall * 1e3, cpu * 1e3, rss / 1e6)
"""


def imports(_bench: Bench, peer: str, _size: Size, _seed: int) -> Numbers:
    """The operator API in a fresh interpreter, over the bare interpreter (bytecode compiled before)."""
    del peer
    done = subprocess.run([sys.executable, "-c", _IMPORT], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(done.stderr[-1500:])
    wall, cpu, rss = map(float, done.stdout.split())
    return {"wall_ms": wall, "cpu_ms": cpu, "rss_mb": rss}
