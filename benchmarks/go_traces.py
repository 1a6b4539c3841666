"""The garbage collections of a real kube-apiserver and its etcd, and the CPU time of both, while a load runs.

Go programs print a line for each garbage collection if the environment variable `GODEBUG` has `gctrace=1`. The
components of a control plane have an environment of their own, so a directory of scripts sets it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.late_causes import Period
from steersman.testing.controlplane.binaries import find_binaries

TRACED: Final = ("kube-apiserver", "etcd")
_LINE: Final = re.compile(r"^gc \d+ @([\d.]+)s \d+%: ([\d.]+)\+([\d.]+)\+([\d.]+) ms clock", re.MULTILINE)
_POLL_SECONDS: Final = 0.01
_SCRIPT: Final = '#!/bin/sh\nGODEBUG=gctrace=1 exec "{program}" "$@"\n'


@contextmanager
def traced_binaries(directory: Path) -> Iterator[None]:
    """Let control planes that start meanwhile trace their garbage collections; `directory` is empty."""
    for program in find_binaries().directory.iterdir():
        target = directory / program.name
        if program.name in TRACED:
            target.write_text(_SCRIPT.format(program=program))
            target.chmod(0o755)
        else:
            target.symlink_to(program)
    name = "STEERSMAN_CONTROLPLANE"
    before = os.environ.get(name)
    os.environ[name] = str(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def collections(text: str) -> list[tuple[int, int]]:
    """Return the collections of a log: begin and length in nanoseconds, since the start of the program."""
    found = (tuple(map(float, match.groups())) for match in _LINE.finditer(text))
    return [(round(at * 1e9), round((sweep + mark + end) * 1e6)) for at, sweep, mark, end in found]


def placed(found: list[tuple[int, int, int]]) -> list[Period]:
    """Return the periods of collections on the wall clock, from begin, length, and when each line was first seen.

    A line appears when its collection has ended, and is seen a little later: the shortest delay is that of the clocks.
    """
    if not found:
        return []
    offset = min(seen - begin - length for begin, length, seen in found)
    return [(begin + offset, begin + offset + length) for begin, length, _ in found]


class Watcher:
    """Reads the logs of the components while a load runs."""

    def __init__(self, logs: Mapping[str, Path], core: set[int]) -> None:
        self._logs = logs
        self._core = core
        self._places = {name: log.stat().st_size for name, log in logs.items()}
        self._found: dict[str, list[tuple[int, int, int]]] = {name: [] for name in logs}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="go-traces", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def periods(self, component: str) -> list[Period]:
        """Return the garbage collections of a component, after the end."""
        return placed(self._found[component])

    def _watch(self) -> None:
        os.sched_setaffinity(0, self._core)  # this thread alone
        while not self._ended.wait(_POLL_SECONDS):
            for name, log in self._logs.items():
                if log.stat().st_size > self._places[name]:
                    self._read(name, log)

    def _read(self, name: str, log: Path) -> None:
        seen = time.time_ns()
        with log.open("rb") as file:
            file.seek(self._places[name])
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._places[name] += len(whole)
        self._found[name] += [(begin, length, seen) for begin, length in collections(whole.decode(errors="replace"))]
