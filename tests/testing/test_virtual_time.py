"""Virtual time must be instant, must not hang, and must show what a test left behind."""

import asyncio

import pytest

from steersman.testing import virtual_time
from steersman.testing.loop import DeadlockError, NoProgressError, VirtualTimeLoop


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


async def wait_for_ever():
    await asyncio.get_running_loop().create_future()


def run(coroutine, **options):
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(**options)) as runner:
        return runner.run(coroutine)


def test_waiting_for_a_result_that_never_comes_is_reported_as_a_deadlock():
    with pytest.raises(DeadlockError):
        run(wait_for_ever(), thread_report_seconds=0.01)


@pytest.mark.parametrize("seconds", [0.1, 1 / 3, 59.99, 86_400.1, 1e6 / 7])
def test_a_timer_fires_at_exactly_its_own_time(seconds):
    @virtual_time
    async def at_its_time():
        loop, seen = asyncio.get_running_loop(), []
        for n in range(1, 200):
            due = loop.time() + n * seconds
            loop.call_at(due, lambda due=due: seen.append(loop.time() - due))
        await asyncio.sleep(200 * seconds)
        assert seen == [0.0] * 199

    at_its_time()


def test_a_timer_that_arms_itself_until_its_time_has_come_lets_time_pass():
    @virtual_time
    async def patient():
        loop, end = asyncio.get_running_loop(), asyncio.get_running_loop().time() + 100 / 3
        passes = 0

        def again():
            nonlocal passes
            passes += 1
            assert passes < 100, "the clock stands still"
            if loop.time() < end:
                loop.call_at(end, again)

        for n in range(1, 40):
            loop.call_later(n * 0.7, lambda: None)
        again()
        await asyncio.sleep(60)
        assert passes == 2

    patient()


def test_timers_a_hundredth_of_a_nanosecond_apart_fire_at_their_own_times():
    @virtual_time
    async def close_together():
        loop, seen = asyncio.get_running_loop(), []
        due = [loop.time() + 1 + n * 1e-11 for n in range(5)]
        for at in due:
            loop.call_at(at, lambda: seen.append(loop.time()))
        await asyncio.sleep(2)
        assert seen == due

    close_together()


async def rearm_at_once():
    loop = asyncio.get_running_loop()

    def tick():
        loop.call_at(loop.time(), tick)

    tick()
    await asyncio.sleep(1)


async def hand_over():
    async def ping_pong():
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    await asyncio.create_task(ping_pong(), name="ping-pong")


@pytest.mark.parametrize(
    ("busy", "name"), [(rearm_at_once, "rearm_at_once.<locals>.tick"), (hand_over, "task ping-pong")]
)
def test_callbacks_that_let_no_time_pass_are_named_when_the_steps_are_used_up(busy, name):
    with pytest.raises(NoProgressError, match="without any time passing") as problem:
        run(busy(), max_steps=5000)
    assert name in str(problem.value)


def test_steps_are_counted_for_each_instant_alone():
    async def work():
        for _ in range(50):
            for _ in range(50):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    run(work(), max_steps=200)


def test_a_task_left_behind_fails_the_test():
    @virtual_time
    async def careless():
        careless.task = asyncio.create_task(asyncio.sleep(1))

    with pytest.raises(AssertionError, match="tasks left behind"):
        careless()
