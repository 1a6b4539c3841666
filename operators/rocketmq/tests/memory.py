"""The peak of the memory of this process and of all processes that it has started, as the kernel counts resident pages."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PeakMemory"]

SAMPLE_SECONDS = 1.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Samples the sum of the resident sets of this process and its descendants, until it is stopped.

    Pages that processes share count for each of them, so the sum is an upper limit.
    """

    def __init__(self) -> None:
        """Start to sample."""
        self.peak_bytes = 0
        self.processes = 0
        """The number of processes at the time of the peak."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="peak-memory", daemon=True)
        self._thread.start()

    def __str__(self) -> str:
        return f"at most {self.peak_bytes / 1e9:.2f} GB of memory at the same time, of {self.processes} processes"

    def stop(self) -> None:
        """Stop to sample."""
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            sizes = list(resident_bytes(os.getpid()))
            if sum(sizes) > self.peak_bytes:
                self.peak_bytes, self.processes = sum(sizes), len(sizes)
            if self._stopping.wait(SAMPLE_SECONDS):
                return


def resident_bytes(root: int) -> Iterator[int]:
    """Yield the resident set of a process and of each of its descendants."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                # The name of the program, in parentheses, may have spaces.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(path.name))
            sizes[int(path.name)] = int(fields[21]) * PAGE_BYTES
    pending = [root]
    while pending:
        process = pending.pop()
        yield sizes.get(process, 0)
        pending += children.get(process, ())
