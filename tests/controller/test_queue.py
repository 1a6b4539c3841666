"""The promises of the work queue, on virtual time."""

import asyncio
from random import Random

import pytest

from steersman.controller.backoff import Backoff
from steersman.controller.queue import LOW_PRIORITY, Debounce, QueueClosedError, WorkQueue
from steersman.testing import virtual_time

PLAIN = Backoff(jitter=0.0)


def queue(**options) -> WorkQueue[str]:
    return WorkQueue("test", rng=Random(1), **{"backoff": PLAIN, **options})


def now() -> float:
    return asyncio.get_running_loop().time()


async def take(q: WorkQueue[str]) -> str:
    return (await q.get()).key


async def nothing_within(q: WorkQueue[str], seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await q.get()


async def at_the_wait_of(q: WorkQueue[str]) -> tuple[str, float]:
    start = now()
    key = await take(q)
    return key, pytest.approx(now() - start, abs=1e-6)


@virtual_time
async def test_an_event_during_a_reconcile_leads_to_exactly_one_more():
    """Q1: a key is with one worker at a time, and events meanwhile lead to exactly one more run."""
    q = queue()
    q.add("a")
    assert await take(q) == "a"
    q.add("a")
    q.add("a")
    await nothing_within(q, 60)
    q.done("a")
    assert await take(q) == "a"
    q.done("a")
    await nothing_within(q, 60)


@virtual_time
async def test_events_for_a_waiting_key_collapse_and_keep_their_reasons():
    """Q2: events for a key while it waits collapse into one."""
    q = queue()
    for reason in ("HelloApp update", "Deployment update", "HelloApp update"):
        q.add("a", reason=reason)
    job = await q.get()
    assert job.reasons == ("HelloApp update", "Deployment update")
    q.done("a")
    assert len(q) == 0
    await nothing_within(q, 60)


@virtual_time
async def test_reasons_of_a_busy_key_stay_few():
    """Q2: a thousand events for one key cost no memory."""
    q = queue()
    for n in range(1000):
        q.add("a", reason=str(n))
    assert len((await q.get()).reasons) == 8


@virtual_time
async def test_a_fresh_event_outranks_the_initial_list():
    """Q3: fresh events outrank the initial list and resyncs."""
    q = queue()
    for key in "abc":
        q.add(key, priority=LOW_PRIORITY)
    q.add("z")
    assert await take(q) == "z"
    q.add("b")  # a fresh event lifts a key of the initial list
    assert [await take(q) for _ in range(3)] == ["b", "a", "c"]


@virtual_time
async def test_a_long_initial_list_does_not_hold_up_fresh_events():
    """Q3: even when the whole list has aged, fresh events get most of the workers."""
    q = queue(ageing=10)
    for n in range(200):
        q.add(f"old-{n}", priority=LOW_PRIORITY)
    await asyncio.sleep(3600)
    for n in range(50):
        q.add(f"new-{n}")
    first = [await take(q) for _ in range(57)]
    assert sum(key.startswith("new") for key in first) >= 49


@virtual_time
async def test_low_priority_does_not_starve_under_a_flood_of_fresh_events():
    """Q3: ageing keeps the low priority from starving."""
    q = queue(ageing=10)
    q.add("patient", priority=LOW_PRIORITY)
    served = None
    for n in range(10_000):
        q.add(f"fresh-{n}-a")
        q.add(f"fresh-{n}-b")
        await asyncio.sleep(0.1)
        key = await take(q)
        q.done(key)
        if key == "patient":
            served = n
            break
    assert served is not None
    assert 90 <= served <= 110


@virtual_time
async def test_keys_of_one_priority_come_first_in_first_out():
    """Q4: first in, first out within a priority."""
    q = queue()
    for key in "dacb":
        q.add(key)
    q.add("d")
    assert [await take(q) for _ in range(4)] == ["d", "a", "c", "b"]


@virtual_time
async def test_failures_back_off_exponentially_to_a_ceiling():
    """Q5: failures back off per key, from 5 ms, doubling, to 1000 s."""
    q = queue()
    q.add("a")
    waits = []
    for attempt in range(1, 22):
        job = await q.get()
        assert job.attempt == attempt
        waits.append(q.fail("a"))
    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert waits[-1] == 1000.0
    assert max(waits) == 1000.0


@virtual_time
async def test_backoff_jitter_only_shortens_and_differs_between_keys():
    """Q5: jitter spreads keys that failed together, and never exceeds the ceiling."""
    q = queue(backoff=Backoff(jitter=0.2))
    waits = []
    for n in range(20):
        q.add(f"k{n}")
        await take(q)
        waits.append(q.fail(f"k{n}"))
    assert len(set(waits)) == 20
    assert all(0.004 <= wait <= 0.005 for wait in waits)


@virtual_time
async def test_success_forgets_the_failures():
    """Q5: success forgets the count."""
    q = queue()
    q.add("a")
    for _ in range(5):
        await take(q)
        q.fail("a")
    await take(q)
    q.done("a")
    q.add("a")
    assert (await q.get()).attempt == 1
    assert q.fail("a") == pytest.approx(0.005)


@virtual_time
async def test_an_asked_requeue_forgets_the_failures():
    """Q5: an asked requeue forgets the count."""
    q = queue()
    q.add("a")
    for _ in range(5):
        await take(q)
        q.fail("a")
    await take(q)
    q.done("a", requeue_after=7)
    assert await at_the_wait_of(q) == ("a", 7)
    assert q.fail("a") == pytest.approx(0.005)


@virtual_time
async def test_a_terminal_error_forgets_and_waits_for_an_event():
    """Q5: a terminal error forgets the count, and is not retried until something happens."""
    q = queue()
    q.add("a")
    for _ in range(5):
        await take(q)
        q.fail("a")
    await take(q)
    q.give_up("a")
    await nothing_within(q, 5000)
    q.add("a")
    assert (await q.get()).attempt == 1


async def _failing(q: WorkQueue[str], times: int) -> float:
    q.add("a")
    for _ in range(times - 1):
        await take(q)
        q.fail("a")
    await take(q)
    return q.fail("a")


@virtual_time
async def test_only_one_event_per_window_shortens_a_backoff():
    """Q5: events during a backoff shorten it once per window, and do not count as failures."""
    q = queue()
    window_end = await _failing(q, 12)
    assert window_end == pytest.approx(10.24)
    started = now()
    await asyncio.sleep(1)
    q.add("a", reason="event")
    retried_early = await q.get()
    assert retried_early.attempt == 13
    assert now() - started == pytest.approx(1)
    q.fail("a")  # the early attempt does not count: the window goes on
    for _ in range(50):
        await asyncio.sleep(0.1)
        q.add("a", reason="event")
    job = await q.get()
    assert now() - started == pytest.approx(window_end)
    assert job.attempt == 13
    assert q.fail("a") == pytest.approx(20.48)


@virtual_time
async def test_a_reconcile_that_fails_and_touches_itself_does_not_spin():
    """Q5: own echoes during a failing run bypass the backoff at most once per window."""
    q = queue()
    q.add("a")
    start, runs = now(), 0
    while now() - start < 600:
        await take(q)
        runs += 1
        q.add("a", reason="echo of our own write")
        q.fail("a")
    assert runs <= 2 * 19


@virtual_time
async def test_success_of_the_early_attempt_ends_the_backoff():
    """Q5: an event that brings the cure is acted on at once, and clears the count."""
    q = queue()
    await _failing(q, 12)
    q.add("a")
    await take(q)
    q.done("a")
    await nothing_within(q, 100)
    assert "a" not in q.state


@virtual_time
async def test_a_requeue_after_does_not_delay_a_newer_event():
    """Q6: a requeue-after never delays a newer event."""
    q = queue()
    q.add("a")
    await take(q)
    q.done("a", requeue_after=60)
    await asyncio.sleep(1)
    q.add("a")
    assert await at_the_wait_of(q) == ("a", 0)


@virtual_time
async def test_an_event_during_the_run_is_not_delayed_by_its_requeue_after():
    """Q6: an event that arrived while the reconcile ran comes before what the reconcile asked for."""
    q = queue()
    q.add("a")
    await take(q)
    q.add("a")
    q.done("a", requeue_after=60)
    assert await at_the_wait_of(q) == ("a", 0)


@virtual_time
async def test_a_promise_survives_a_newer_event_whose_reconcile_fails():
    """Q6: a newer event never cancels a promised requeue-after unless its reconcile succeeds."""
    q = queue()
    q.add("a")
    await take(q)
    promised_at = now() + 60
    q.done("a", requeue_after=60)
    q.add("a")
    for _ in range(14):  # 5 ms … 41 s: the last wait crosses the promise
        await take(q)
        wait = q.fail("a")
    assert now() + wait > promised_at
    job = await q.get()
    assert now() == pytest.approx(promised_at)
    assert "requeue-after" in job.reasons


@virtual_time
async def test_a_promise_is_kept_when_the_newer_run_fails_for_good():
    """Q6: a terminal error is no success, so the promise stands."""
    q = queue()
    q.add("a")
    await take(q)
    q.done("a", requeue_after=60)
    q.add("a")
    await take(q)
    q.give_up("a")
    assert await at_the_wait_of(q) == ("a", 60)


@virtual_time
async def test_a_success_without_requeue_takes_the_promise_back():
    """Q6: the scheduled run is cancelled by a newer run that succeeds without a requeue."""
    q = queue()
    q.add("a")
    await take(q)
    q.done("a", requeue_after=60)
    q.add("a")
    await take(q)
    q.done("a")
    await nothing_within(q, 600)


@virtual_time
async def test_a_promise_that_falls_due_during_a_run_leads_to_one_more():
    """Q6: a promise that falls due while the key is with a worker is kept after it."""
    q = queue()
    q.add("a")
    await take(q)
    q.done("a", requeue_after=10)
    q.add("a")
    await take(q)
    await asyncio.sleep(20)
    q.fail("a")
    assert (await q.get()).reasons == ("requeue-after",)


@virtual_time
async def test_add_after_is_independent_of_success():
    """Q6: an add that a source scheduled is not taken back by a success before it."""
    q = queue()
    q.add_after("a", 30)
    q.add_after("a", 60)
    q.add("a")
    await take(q)
    q.done("a")
    assert await at_the_wait_of(q) == ("a", 30)
    q.done("a")
    await nothing_within(q, 600)


@virtual_time
async def test_debounce_waits_for_quiet_but_not_for_ever():
    """Q7: debounce is trailing, with a maximum wait."""
    q = queue(debounce=Debounce(quiet=1, max_wait=5))
    start = now()
    q.add("a")
    await asyncio.sleep(0.5)
    q.add("a")
    assert await take(q) == "a"
    assert now() - start == pytest.approx(1.5)
    q.done("a")

    start = now()
    getting = asyncio.ensure_future(q.get())
    while not getting.done():
        q.add("a")
        await asyncio.sleep(0.4)
    assert now() - start == pytest.approx(5.2, abs=0.21)


@virtual_time
async def test_without_debounce_an_event_is_handed_out_at_once():
    """Q7: debounce is opt-in."""
    q = queue()
    q.add("a")
    assert await at_the_wait_of(q) == ("a", 0)


@virtual_time
async def test_a_debounced_event_during_a_run_settles_after_it():
    """Q7: an event during a run waits for its quiet time after the run, and leads to one more run."""
    q = queue(debounce=Debounce(quiet=1, max_wait=5))
    q.add("a")
    await take(q)
    q.add("a")
    q.done("a")
    assert await at_the_wait_of(q) == ("a", 1)
    q.done("a")
    await nothing_within(q, 600)


@virtual_time
async def test_waiting_workers_are_woken_one_per_key():
    q = queue()
    workers = [asyncio.create_task(q.get()) for _ in range(3)]
    await asyncio.sleep(0)
    q.add("a")
    q.add("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(w.result().key for w in workers if w.done()) == ["a", "b"]
    (left,) = [w for w in workers if not w.done()]
    q.shut_down()
    with pytest.raises(QueueClosedError):
        await left


@virtual_time
async def test_of_several_waiting_workers_the_one_that_worked_last_is_woken():
    q = queue()
    workers = [asyncio.create_task(q.get()) for _ in range(3)]
    await asyncio.sleep(0)
    q.add("a")
    assert (await workers[2]).key == "a"
    assert not any(w.done() for w in workers[:2])
    for worker in workers[:2]:
        worker.cancel()


@virtual_time
async def test_a_cancelled_worker_passes_its_wake_up_on():
    q = queue()
    first, second = (asyncio.create_task(q.get()) for _ in range(2))
    await asyncio.sleep(0)
    q.add("a")
    first.cancel()
    assert (await second).key == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


@virtual_time
async def test_after_shut_down_nothing_is_taken_and_nothing_is_added():
    q = queue()
    q.add("a")
    await take(q)
    q.add("b")
    q.shut_down()
    q.add("c")
    q.done("a", requeue_after=1)
    with pytest.raises(QueueClosedError):
        await q.get()
    assert q.state.depths() == {0: 1}


@virtual_time
async def test_reporting_a_key_that_no_worker_has_is_a_programming_error():
    q = queue()
    with pytest.raises(RuntimeError, match="no worker has it"):
        q.done("a")
    q.add("a")
    with pytest.raises(RuntimeError, match="no worker has it"):
        q.fail("a")


@virtual_time
async def test_a_key_put_back_is_ready_at_once_with_its_reasons():
    q = queue()
    q.add("a", reason="x")
    job = await q.get()
    q.put_back("a", job.reasons)
    assert (await q.get()).reasons == ("x",)


@virtual_time
async def test_one_timer_serves_a_thousand_delayed_keys():
    q = queue()
    for n in range(1000):
        q.add_after(f"k{n}", 1000 - n)
    assert await at_the_wait_of(q) == ("k999", 1)
    assert q._timer is not None
    assert len([h for h in asyncio.get_running_loop()._scheduled if not h.cancelled()]) == 1


@virtual_time
async def test_a_forgotten_key_leaves_nothing_behind():
    q = queue()
    for _n in range(500):
        q.add("a")
        await take(q)
        q.done("a", requeue_after=3600)
        q.add("a")
        await take(q)
        q.done("a")
    assert "a" not in q.state
    assert len(q.state.timers) < 100


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="quiet"):
        Debounce(quiet=2, max_wait=1)
    with pytest.raises(ValueError, match="base"):
        Backoff(base=0)
