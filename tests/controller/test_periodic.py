"""Periodic functions: on time, one at a time, whatever happens."""

import asyncio
from random import Random

import pytest

from steersman.controller import Periodic
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


def runs(timer: str, result: str) -> float:
    return REGISTRY.get_sample_value("steersman_timer_runs_total", {"timer": timer, "result": result}) or 0


async def times_of(periodic_for, seconds: float) -> list[float]:
    start, times = now(), []
    periodic = periodic_for(lambda: times.append(round(now() - start, 3)))
    task = asyncio.create_task(periodic.run())
    await asyncio.sleep(seconds)
    periodic.stop()
    await task
    return times


@virtual_time
async def test_it_runs_at_once_and_then_every_interval():
    def periodic(tick):
        async def function():
            tick()

        return Periodic("t", 30, function, jitter=0)

    assert await times_of(periodic, 100) == [0, 30, 60, 90]


@virtual_time
async def test_a_slow_run_is_never_overlapped_and_missed_runs_are_skipped():
    def periodic(tick):
        async def function():
            tick()
            await asyncio.sleep(70)

        return Periodic("t", 30, function, jitter=0)

    assert await times_of(periodic, 200) == [0, 90, 180]


@virtual_time
async def test_jitter_moves_runs_but_does_not_add_up():
    def periodic(tick):
        async def function():
            tick()

        return Periodic("t", 10, function, jitter=0.2, rng=Random(1))

    times = await times_of(periodic, 1000)
    assert len(times) in (100, 101)
    assert all(0 <= t - 10 * n <= 2 for n, t in enumerate(times))
    assert len({round(t - 10 * n, 3) for n, t in enumerate(times)}) > 50


@virtual_time
async def test_a_failure_is_counted_and_the_next_run_comes():
    """R1: an exception never ends the timer."""

    def periodic(tick):
        async def function():
            tick()
            raise OSError("no route")

        return Periodic("failing", 10, function, jitter=0)

    assert len(await times_of(periodic, 35)) == 4
    assert runs("failing", "error") == 4


@virtual_time
async def test_a_run_that_takes_too_long_is_cut_off():
    def periodic(tick):
        async def function():
            tick()
            await asyncio.sleep(3600)

        return Periodic("long", 10, function, jitter=0, timeout=5)

    assert await times_of(periodic, 24) == [0, 10, 20]
    assert runs("long", "timeout") == 3


@virtual_time
async def test_a_plain_function_runs_in_a_thread():
    """R6: blocking work does not block the loop."""
    import threading

    names = []

    def periodic(_tick):
        return Periodic("plain", 10, lambda: names.append(threading.current_thread().name), jitter=0)

    await times_of(periodic, 15)
    assert names == ["timer-plain_0"] * 2


@virtual_time
async def test_cancellation_ends_a_run_at_once():
    async def function():
        await asyncio.sleep(3600)

    task = asyncio.create_task(Periodic("t", 10, function).run())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="interval 0 s"):
        Periodic("t", 0, lambda: None)
    with pytest.raises(ValueError, match="jitter"):
        Periodic("t", 1, lambda: None, jitter=1)
