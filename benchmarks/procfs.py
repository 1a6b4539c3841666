"""The kernel's counters of a process, read without a request to the process, which would wake it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cpu_seconds", "proportional_bytes", "wakeups"]


def wakeups(pid: int) -> int:
    """Return how often the threads of a process have blocked: each of them woke up as often."""
    return sum(_voluntary(path.read_text()) for path in Path(f"/proc/{pid}/task").glob("*/status"))


def _voluntary(status: str) -> int:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary_ctxt_switches:"))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of the threads of a process, in the kernel's nanoseconds."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process; pages that it shares with others count in part (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
