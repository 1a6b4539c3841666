"""Processes in one event loop stop at any instant."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from steersman.testing.explore.loop import ProcessLoop, current_process, in_process


def run(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    with asyncio.Runner(loop_factory=ProcessLoop) as runner:
        return runner.run(work)


def loop() -> ProcessLoop:
    found = asyncio.get_running_loop()
    assert isinstance(found, ProcessLoop)
    return found


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5])
def test_a_stopped_process_runs_no_timer_and_no_finally(after: float) -> None:
    async def scenario() -> list[str]:
        said: list[str] = []

        async def life() -> None:
            try:
                said.append(f"starts in {current_process()}")
                await asyncio.sleep(1)
                said.append("one second")
                await asyncio.sleep(1)
            finally:
                said.append("finally")

        with in_process(7):
            task = asyncio.create_task(life())
        await asyncio.sleep(after)
        loop().stop_process(7)
        before = list(said)
        task.cancel()
        await asyncio.sleep(100)
        assert said == before
        assert not task.done()
        loop().continue_process(7)
        await asyncio.wait([task])
        return said

    said = run(scenario())
    assert ("one second" in said) == (after > 1)


def test_what_a_stopped_process_waited_for_arrives_when_it_continues() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []
        answer: asyncio.Future[str] = loop().create_future()

        async def life() -> None:
            said.append(await answer)
            said.append(f"{loop().time():g}")

        with in_process(1):
            task = asyncio.create_task(life())
        await asyncio.sleep(0)
        loop().stop_process(1)
        answer.set_result("an answer")
        await asyncio.sleep(5)
        assert said == []
        loop().continue_process(1)
        await task
        return said

    assert run(scenario()) == ["an answer", "1005"]


def test_other_processes_run_on() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []

        async def life(name: str) -> None:
            await asyncio.sleep(1)
            said.append(name)

        tasks: list[asyncio.Task[None]] = []
        for number, name in ((1, "first"), (2, "second")):
            with in_process(number):
                tasks.append(asyncio.create_task(life(name)))
        await asyncio.sleep(0)
        loop().stop_process(1)
        await asyncio.sleep(2)
        found = list(said)
        loop().continue_process(1)
        await asyncio.wait(tasks)
        return found

    assert run(scenario()) == ["second"]
