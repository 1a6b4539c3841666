"""Virtual time must be instant, must not hang, and must show what a test left behind."""

import asyncio

import pytest

from steersman.testing import virtual_time
from steersman.testing.loop import DeadlockError


@virtual_time
async def test_an_hour_of_sleep_takes_no_time_and_moves_the_clock_by_an_hour():
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - before == pytest.approx(3600, abs=1e-3)


@virtual_time
async def test_timers_fire_in_the_order_of_their_times():
    loop, fired = asyncio.get_running_loop(), []
    loop.call_later(2, fired.append, "second")
    loop.call_later(1, fired.append, "first")
    await asyncio.sleep(3)
    assert fired == ["first", "second"]


@virtual_time
async def test_work_in_a_thread_is_waited_for_while_timers_are_pending():
    asyncio.get_running_loop().call_later(60, lambda: None)
    assert await asyncio.to_thread(lambda: 3) == 3


@virtual_time
async def test_a_decorated_test_still_receives_its_fixtures(tmp_path):
    assert tmp_path.is_dir()


def test_waiting_for_what_never_comes_is_reported_as_a_deadlock(monkeypatch):
    monkeypatch.setattr("steersman.testing.loop._PATIENCE", 0.01)

    @virtual_time
    async def stuck():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError):
        stuck()


def test_a_task_left_behind_fails_the_test():
    @virtual_time
    async def careless():
        careless.task = asyncio.create_task(asyncio.sleep(1))

    with pytest.raises(AssertionError, match="tasks left behind"):
        careless()
