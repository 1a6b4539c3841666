"""The watchdog of a loop that records its activity: the same reports, and no work while nothing happens (R6)."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from steersman.controller import LoopWatchdog
from steersman.controller.loop_activity import ObservedLoop


def run(main: Coroutine[Any, Any, Any], loop: type[ObservedLoop] = ObservedLoop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    class Log:
        def warning(self, event: str, **values: Any) -> None:
            found.append({"event": event, **values})

    monkeypatch.setattr("steersman.controller.watchdog._log", Log())
    return found


def test_a_stall_is_reported_once_with_the_stack_that_causes_it(reports):
    def culprit():
        time.sleep(0.5)

    async def main():
        with LoopWatchdog(threshold=0.1):
            await asyncio.sleep(0.01)
            culprit()
            await asyncio.sleep(0)

    run(main())
    (report,) = reports
    assert "in culprit" in report["stack"]
    assert report["event"] == "event_loop_blocked"


def test_every_stall_after_a_wait_is_reported(reports):
    async def main():
        with LoopWatchdog(threshold=0.1):
            for _ in range(3):
                await asyncio.sleep(0.3)
                time.sleep(0.2)  # noqa: ASYNC251 - the stall

    run(main())
    assert len(reports) == 3


def test_many_short_callbacks_are_no_stall(reports):
    async def main():
        end = time.monotonic() + 0.4
        with LoopWatchdog(threshold=0.2):
            while time.monotonic() < end:
                time.sleep(0.001)  # noqa: ASYNC251 - a short callback
                await asyncio.sleep(0)

    run(main())
    assert reports == []


def test_the_time_of_a_stall_can_be_read_from_another_thread():
    read: list[float] = []

    async def main():
        with LoopWatchdog() as watchdog:
            idle = threading.Timer(0.1, lambda: read.append(watchdog.stalled_for()))
            idle.start()
            await asyncio.sleep(0.3)
            stalled = threading.Timer(0.1, lambda: read.append(watchdog.stalled_for()))
            stalled.start()
            time.sleep(0.3)  # noqa: ASYNC251 - the stall
            idle.join()
            stalled.join()

    run(main())
    assert read[0] == 0
    assert read[1] > 0.05


def test_an_idle_loop_wakes_neither_itself_nor_the_watchdog():
    class CountingLoop(ObservedLoop):
        def __init__(self) -> None:
            super().__init__()
            self.waits = self.selects = 0
            wait, select = self.activity.wait, self.activity.select

            def counting_wait(seconds: float) -> None:
                self.waits += 1
                wait(seconds)

            def counting_select(timeout: float | None = None):
                self.selects += 1
                return select(timeout)

            self.activity.wait, self.activity.select = counting_wait, counting_select

    counts: list[int] = []

    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        with LoopWatchdog(threshold=0.02):
            await asyncio.sleep(0.4)
            waits, selects = loop.waits, loop.selects
            await asyncio.sleep(0.6)
            counts.extend((loop.waits - waits, loop.selects - selects))

    run(main(), CountingLoop)
    assert counts[0] <= 6
    assert counts[1] <= 3


def test_the_thread_of_the_watchdog_ends_with_it():
    async def main():
        before = set(threading.enumerate())  # other tests may have operators that still run
        with LoopWatchdog(threshold=0.05):
            assert [thread.name for thread in set(threading.enumerate()) - before] == ["loop-watchdog"]
            await asyncio.sleep(0.01)
        assert not set(threading.enumerate()) - before

    run(main())


def test_a_pass_that_a_callback_makes_ready_needs_no_system_call(monkeypatch: pytest.MonkeyPatch):
    polls: list[float | None] = []
    select = selectors.DefaultSelector.select

    def counting_select(selector: selectors.DefaultSelector, timeout: float | None = None):
        polls.append(timeout)
        return select(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", counting_select)

    async def main():
        for _ in range(10):
            polls.clear()
            await asyncio.sleep(0.001)  # the task runs in the pass after the timer
            assert len(polls) == 1, polls  # with a timeout of 0 where a busy machine is late for the timer

    run(main())


def test_a_loop_that_always_has_ready_callbacks_still_reads_its_sockets():
    async def main():
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            received = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(left, 1))
            await asyncio.sleep(0)
            right.send(b"x")
            passes = 0
            while not received.done():
                passes += 1
                await asyncio.sleep(0)
            assert received.result() == b"x"
            assert passes <= 6

    run(main())
