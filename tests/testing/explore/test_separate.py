"""In a process with threads, a test is explored in a separate process, which forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from steersman.testing.explore import ScenarioRun, explored
from steersman.testing.explore.separate import Importable, SeparateError, explore_separately, importable

from .planted import CLASSES, app


@explored(jobs=1, plans=("crash-after:W1",))
async def a_bug(run: ScenarioRun, name: str) -> None:
    await run.operator(lambda: CLASSES[name](False))
    await run.apply(app())
    await run.settled()
    run.note(f"process {os.getpid()}")


@pytest.fixture
def another_thread() -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.usefixtures("another_thread")
def test_a_test_of_a_module_is_explored_in_forks_of_a_separate_process() -> None:
    result = a_bug.explored.explore(name="generate_name")
    assert [str(failure.plan) for failure in result.failures] == ["crash-after:W1"]
    assert result.reference is not None
    (mark,) = [mark.text for mark in result.reference.trace.marks if mark.text.startswith("process")]
    assert mark != f"process {os.getpid()}"


@pytest.mark.usefixtures("another_thread")
def test_a_function_in_a_function_is_explored_in_the_process_of_the_test() -> None:
    @explored(jobs=1, plans=("crash-after:W1",))
    async def local(run: ScenarioRun) -> None:
        await a_bug.explored.scenario(run, "generate_name")

    assert importable(local.explored) is None
    result = local.explored.explore()
    assert result.reference is not None
    assert f"process {os.getpid()}" in [mark.text for mark in result.reference.trace.marks]


def test_a_module_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(SeparateError, match=r"no_such_module\.test: "):
        explore_separately(Importable("no_such_module", "/nowhere/no_such_module.py", "test"), {})


def test_fixtures_that_cannot_be_pickled_are_named() -> None:
    place = importable(a_bug.explored)
    assert place is not None
    with pytest.raises(SeparateError, match="a_bug: its fixtures cannot be pickled"):
        explore_separately(place, {"name": lambda: None})
