"""Forks of this process that send values to it, and the plans that begin as forks of a running reference.

The reference runs once more in a fork. At each point of a plan, that fork is forked again, and the new process injects
the plan's fault, so that a plan takes only the part of the run behind its first fault.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import random
import selectors
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from steersman.testing.explore.plans import Plan

__all__ = ["MAX_RUN_CPU_SECONDS", "Branches", "Ended", "Forks", "forks", "send"]

MAX_RUN_CPU_SECONDS: Final = 60
"""CPU seconds after which a run is ended."""
_LENGTH_BYTES: Final = 8


def forks() -> bool:
    """Return whether runs can be forks of this process."""
    return hasattr(os, "fork") and threading.active_count() == 1


def send(out: int, data: bytes) -> None:
    """Write one message to the parent.

    Args:
        out: The descriptor from `Forks.start`.
        data: The message.
    """
    rest = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    while rest:
        rest = rest[os.write(out, rest) :]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    Args:
        plan: The plan of the run.
        data: The last message of the process; empty if it ended without one.
        status: The status of the process, as of `os.wait4`.
        cpu: CPU seconds of the process.
    """

    plan: Plan
    data: bytes
    status: int
    cpu: float


@dataclass(slots=True)
class _Process:
    pid: int
    plan: Plan
    on_message: Callable[[bytes], None] | None
    received: bytearray
    last: bytes = b""


class Forks:
    """The running forks of this process. Use `close` to end those that are left.

    Args:
        jobs: The greatest number of forks at a time.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._running: dict[int, _Process] = {}
        self._selector = selectors.DefaultSelector()

    @property
    def full(self) -> bool:
        """Whether no other fork may start now."""
        return len(self._running) >= self._jobs

    @property
    def empty(self) -> bool:
        """Whether no fork runs."""
        return not self._running

    def start(self, plan: Plan, on_message: Callable[[bytes], None] | None = None) -> int | None:
        """Fork. Returns `None` in this process, and in the fork the descriptor for `send`.

        Args:
            plan: The plan that the fork runs.
            on_message: Called with each message; by default the last one is kept for `wait`.
        """
        reading, writing = os.pipe()
        generator = random.getstate()  # Python seeds the generator of a fork from the system
        # Python ignores exceptions in callbacks around fork(), including KeyboardInterrupt.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.close(writing)
            self._running[reading] = _Process(pid, plan, on_message, bytearray())
            self._selector.register(reading, selectors.EVENT_READ)
            return None
        random.setstate(generator)
        os.close(reading)
        return writing

    def wait(self) -> Ended:
        """Wait until a fork ends."""
        while True:
            if (ended := self.receive()) is not None:
                return ended

    def receive(self) -> Ended | None:
        """Wait until a fork sends something or ends. Returns `None` in the first case."""
        reading = self._selector.select()[0][0].fd
        process = self._running[reading]
        if chunk := os.read(reading, 1 << 20):
            process.received += chunk
            _take_messages(process)
            return None
        self._forget(reading)
        _, status, usage = os.wait4(process.pid, 0)
        return Ended(process.plan, process.last, status, usage.ru_utime + usage.ru_stime)

    def close(self) -> float:
        """Kill the forks that run, with the forks of these, and return their CPU seconds."""
        cpu = 0.0
        for reading, process in list(self._running.items()):
            self._forget(reading)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has no process group
                os.kill(process.pid, signal.SIGKILL)
            usage = os.wait4(process.pid, 0)[2]
            cpu += usage.ru_utime + usage.ru_stime
        self._selector.close()
        return cpu

    def _forget(self, reading: int) -> None:
        self._selector.unregister(reading)
        os.close(reading)
        del self._running[reading]


def _take_messages(process: _Process) -> None:
    received = process.received
    while len(received) >= _LENGTH_BYTES:
        end = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
        if len(received) < end:
            return
        message = bytes(received[_LENGTH_BYTES:end])
        del received[:end]
        if process.on_message is None:
            process.last = message
        else:
            process.on_message(message)


class Branches:
    """Begins plans as forks of the process that runs the reference.

    Args:
        plans: The plans.
        jobs: The greatest number of forks at a time.
        out: The descriptor to which this process sends each `Ended`, pickled.
    """

    def __init__(self, plans: Iterable[Plan], jobs: int, out: int) -> None:
        self.plan = Plan()
        """The plan of this process."""
        self.out = out
        """The descriptor to which this process sends."""
        self._jobs = jobs
        self._forks = Forks(jobs)
        self._begun: set[Plan] = set()
        self._at: dict[str, list[Plan]] = {}
        for plan in plans:
            for fault in plan.faults:
                self._at.setdefault(fault.at, []).append(plan)

    def reach(self, point: str) -> Plan | None:
        """Begin the plans of a point. Returns `None` in the process of the reference, and in a fork its plan.

        Args:
            point: The point that the run has reached: `W3`, `E5` or `S1`.
        """
        for plan in self._at.pop(point, ()):
            if plan in self._begun:
                continue
            if not forks():
                return None  # the operator has started threads; these plans begin at the start of the scenario
            while self._forks.full:
                self._forward()
            self._begun.add(plan)
            loop = asyncio.get_running_loop()
            gc.freeze()
            out = self._forks.start(plan)
            if out is not None:
                asyncio._set_running_loop(loop)  # asyncio forgets the loop in a fork
                self.plan, self.out = plan, out
                self._at.clear()
                return plan
        if self._jobs == 1:
            self.finish()  # Processes that share memory copy each page that they change.
        return None

    def finish(self) -> None:
        """Wait for all forks, and forward their messages."""
        while not self._forks.empty:
            self._forward()

    def _forward(self) -> None:
        send(self.out, pickle.dumps(self._forks.wait(), protocol=5))
