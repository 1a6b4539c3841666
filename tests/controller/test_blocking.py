"""A thread's call of the event loop ends in every case, also if the loop stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from steersman.controller.blocking import LoopEndedError, run_in_loop


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread of its own."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


async def answer() -> int:
    return 42


def test_a_thread_gets_the_result(loop: asyncio.AbstractEventLoop) -> None:
    assert run_in_loop(loop, answer()) == 42


def test_a_thread_gets_the_error(loop: asyncio.AbstractEventLoop) -> None:
    async def fail() -> None:
        raise TimeoutError("the work's own")

    with pytest.raises(TimeoutError, match="the work's own"):
        run_in_loop(loop, fail())


def test_waiting_has_an_end_and_the_work_too(loop: asyncio.AbstractEventLoop) -> None:
    ended = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        run_in_loop(loop, hang(), 0.01)
    assert ended.wait(5)


def test_a_loop_that_is_closed_is_told_at_once() -> None:
    made = asyncio.new_event_loop()
    made.close()
    with pytest.raises(LoopEndedError):
        run_in_loop(made, answer())


def test_work_given_to_a_loop_after_its_last_turn_is_not_waited_for() -> None:
    """Between its last turn and its closing, a loop takes work that it never begins."""
    made = asyncio.new_event_loop()
    given = threading.Event()
    problems: list[BaseException] = []

    async def unbegun() -> None:
        raise AssertionError("nobody runs this loop")

    def ask() -> None:
        try:
            run_in_loop(made, unbegun())
        except LoopEndedError as problem:
            problems.append(problem)

    accepted = made.call_soon_threadsafe

    def accept(*what: object, **how: object) -> object:
        handle = accepted(*what, **how)  # type: ignore[arg-type]
        given.set()
        return handle

    made.call_soon_threadsafe = accept  # type: ignore[method-assign,assignment]
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert given.wait(5)
    made.close()
    asking.join(10)
    assert not asking.is_alive()
    assert len(problems) == 1
