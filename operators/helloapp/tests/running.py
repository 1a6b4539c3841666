"""Runs the operator as its users do: `steersman run` as a process of its own, that can be killed at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CRD = PROJECT / "config" / "crd" / "bases" / "apps.anupam.com_helloapps.yaml"
RBAC = PROJECT / "config" / "rbac" / "role.yaml"
SAMPLE = PROJECT / "config" / "samples" / "apps_v1_helloapp.yaml"


def eventually(condition: Callable[[], object], *, what: str, within: float = 180.0, every: float = 0.1) -> None:
    """Wait until `condition()` is true; fails with `what` after `within` seconds of real time."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within:g} s still not: {what}")
        time.sleep(every)


class Replica:
    """One operator process; its log is kept for when a test fails."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str, **environment: str) -> None:
        self.log = log
        self._out = log.open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "steersman", "run", "helloapp:operator",
                "--kubeconfig", str(kubeconfig), "--log-format", "json",
                "--metrics-bind-address", "0", "--health-probe-bind-address", "0", *arguments,
            ],
            cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._out,
            env={**os.environ, **environment},
        )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self._out.close()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self._out.close()

    def tail(self, characters: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-characters:]


@contextmanager
def running(kubeconfig: Path, log: Path, *arguments: str) -> Iterator[Replica]:
    """A replica for the time of a block; on failure its log is shown."""
    replica = Replica(kubeconfig, log, *arguments)
    try:
        yield replica
    except BaseException:
        print(replica.tail())
        raise
    finally:
        if replica.alive:
            replica.stop()
