"""Controllers and their workers: what a reconcile may raise, how long it may take, how it stops."""

import asyncio
import io
import json
import threading
import time
from random import Random

import pytest

from steersman.client.errors import Conflict, ConnectError, Forbidden
from steersman.client.status import Status, StatusCause, StatusDetails
from steersman.controller import CURRENT_REQUEST, Backoff, Controller, Request, RequeueError, Result, TerminalError
from steersman.controller.watchdog import LoopWatchdog
from steersman.models import Key
from steersman.telemetry import log
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

A, B = Key("prod", "a"), Key("prod", "b")


def controller(reconcile, **options) -> Controller:
    options = {"kind": "HelloApp", "rng": Random(1), "backoff": Backoff(jitter=0.0), **options}
    return Controller("hello", reconcile, **options)


class running:  # noqa: N801 - reads as a sentence in a `with`
    """Runs a controller in the background, and stops it at the end of the block."""

    def __init__(self, c: Controller, grace: float = 5.0) -> None:
        self.controller, self.grace = c, grace

    async def __aenter__(self) -> Controller:
        self.task = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0)
        return self.controller

    async def __aexit__(self, *_: object) -> None:
        await self.controller.stop(self.grace)
        await self.task


async def until(condition) -> None:
    """Wait for threads, which no virtual clock can hurry."""
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - the condition is a plain number
            await asyncio.sleep(0.005)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
def lines():
    """The log, as parsed JSON lines."""
    stream = io.StringIO()
    log.configure(level="debug", format="json", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    log.configure()


def conflict() -> Conflict:
    return Conflict(Status(code=409, reason="Conflict", message="the object has been modified"))


@virtual_time
async def test_an_exception_is_logged_with_its_traceback_counted_and_retried(lines):
    """R1: an exception in a reconcile is caught, logged with a traceback, counted and retried."""
    runs = []

    async def reconcile(request: Request):
        runs.append((now(), request.attempt))
        if len(runs) < 3:
            raise RuntimeError("the disk is full")

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    assert [attempt for _, attempt in runs] == [1, 2, 3]
    assert runs[2][0] - runs[1][0] == pytest.approx(0.01)
    assert (c.stats.error, c.stats.success, c.stats.panics) == (2, 1, 0)
    failed = [line for line in lines() if line["event"] == "reconcile_failed"]
    assert len(failed) == 2
    assert "RuntimeError: the disk is full" in failed[0]["exception"]
    assert "in reconcile" in failed[0]["exception"]


@virtual_time
async def test_a_refusal_that_repeats_is_logged_without_repeating_its_traceback(lines):
    """R1: while the API server is down, each attempt logs one line; the first has the traceback."""

    async def reconcile(request: Request):
        if request.attempt < 4:
            raise ConnectError("connection refused")

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    failed = [line for line in lines() if line["event"] == "reconcile_failed"]
    assert ["exception" in line for line in failed] == [True, False, False]
    assert all(line["error"] == "connection refused" for line in failed)


async def test_reconciles_that_await_nothing_still_let_the_loop_live():
    """R6: thousands of keys with nothing to do must not hold up timers, watches and the lease."""
    beats = []

    async def reconcile(request: Request):
        time.sleep(0.0005)  # noqa: ASYNC251 - the work of a reconcile that only reads the cache

    async with running(controller(reconcile)) as c:
        for n in range(200):
            c.queue.add(Key("prod", str(n)))
        while c.stats.success < 200:
            await asyncio.sleep(0)
            beats.append(c.stats.success)
    assert len(beats) > 15


@virtual_time
async def test_a_failing_key_does_not_hold_up_another():
    """R1: one broken object is just one broken object."""
    seen = []

    async def reconcile(request: Request):
        if request.key == A:
            raise KeyError("spec")
        seen.append(request.key)

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        c.queue.add(B)
        await asyncio.sleep(1)
    assert seen == [B]
    assert c.stats.panics == c.stats.error > 1  # a KeyError is a mistake of the program


@virtual_time
async def test_a_conflict_is_retried_quietly(lines):
    """R2: 409 Conflict is not an error to the user."""
    runs = []

    async def reconcile(request: Request):
        runs.append(request.attempt)
        if len(runs) == 1:
            raise conflict()

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    assert len(runs) == 2
    assert (c.stats.error, c.stats.conflicts, c.stats.success) == (0, 1, 1)
    assert {line["level"] for line in lines()} == {"debug"}


@virtual_time
async def test_a_creation_in_a_terminating_namespace_is_retried_without_an_error(lines):
    """The namespace controller deletes children before their owner, and the reconcile creates them again."""
    attempts = []

    async def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if len(attempts) == 1:
            cause = StatusCause(reason="NamespaceTerminating", message="namespace prod is being terminated")
            raise Forbidden(Status(code=403, reason="Forbidden", details=StatusDetails(causes=(cause,))))

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    assert (c.stats.error, c.stats.requeue, c.stats.success) == (0, 1, 1)
    assert [line["level"] for line in lines() if line["event"] == "reconcile_in_terminating_namespace"] == ["info"]


@virtual_time
async def test_a_reconcile_that_takes_too_long_is_cut_off_and_retried(lines):
    """R3: a timeout is reported as one, counts as an error and backs off."""
    outcome = []

    async def reconcile(request: Request):
        if request.attempt == 1:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                outcome.append(now())
                raise

    start = now()
    async with running(controller(reconcile, timeout=10)) as c:
        c.queue.add(A)
        await asyncio.sleep(20)
        assert outcome == [pytest.approx(start + 10)]
        assert (c.stats.timeouts, c.stats.error, c.stats.success) == (1, 1, 1)
    assert any("not finished within 10 s" in line.get("error", "") for line in lines())


@virtual_time
async def test_cancellation_at_shutdown_is_no_timeout():
    """R3: a cancelled reconcile is not counted or retried as a timeout."""

    async def reconcile(request: Request):
        await asyncio.sleep(3600)

    c = controller(reconcile, timeout=100)
    async with running(c, grace=3):
        c.queue.add(A)
        await asyncio.sleep(1)
    assert (c.stats.timeouts, c.stats.error) == (0, 0)


@virtual_time
async def test_the_timeout_counts_per_reconcile_not_per_worker():
    """R3: a worker may be busy for longer than the timeout with many short reconciles."""
    done = []

    async def reconcile(request: Request):
        await asyncio.sleep(6)
        done.append(request.key)

    async with running(controller(reconcile, timeout=10)) as c:
        for n in range(10):
            c.queue.add(Key("prod", str(n)))
        await asyncio.sleep(61)
    assert len(done) == 10
    assert c.stats.timeouts == 0


@virtual_time
async def test_a_reconcile_that_swallows_its_timeout_leaves_the_worker_alive():
    """R3: a timeout that user code catches does not end the worker."""
    seen = []

    async def reconcile(request: Request):
        seen.append(request.key)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return

    async with running(controller(reconcile, timeout=1)) as c:
        c.queue.add(A)
        c.queue.add(B)
        await asyncio.sleep(5)
    assert seen == [A, B]


@virtual_time
async def test_shutdown_lets_a_running_reconcile_finish_and_takes_nothing_new():
    """R4: intake stops, running reconciles get the grace period to finish."""
    log_ = []

    async def reconcile(request: Request):
        log_.append(("start", request.key))
        await asyncio.sleep(4)
        log_.append(("end", request.key))

    async with running(controller(reconcile), grace=10) as c:
        c.queue.add(A)
        c.queue.add(B)
        await asyncio.sleep(1)
    assert log_ == [("start", A), ("end", A)]


@virtual_time
async def test_after_the_grace_period_running_reconciles_are_cancelled(lines):
    """R4: what does not finish in time is cancelled, and said so."""
    ended = []

    async def reconcile(request: Request):
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(now())

    start = now()
    async with running(controller(reconcile, workers=2), grace=10) as c:
        c.queue.add(A)
        c.queue.add(B)
        await asyncio.sleep(1)
        assert {r.key for r in c.busy} == {A, B}
    assert ended == [pytest.approx(start + 11)] * 2
    assert sum(line["event"] == "reconcile_cancelled_at_shutdown" for line in lines()) == 2


@virtual_time
async def test_workers_start_only_after_the_caches_have_synced():
    """C3: workers start only when every watched kind has synced."""
    synced, seen = asyncio.Event(), []

    async def reconcile(request: Request):
        seen.append(now())

    c = controller(reconcile)
    task = asyncio.create_task(c.run(synced=synced.wait))
    c.queue.add(A)
    await asyncio.sleep(60)
    assert seen == []
    synced.set()
    await asyncio.sleep(1)
    assert len(seen) == 1
    await c.stop()
    await task


@virtual_time
async def test_log_lines_of_a_reconcile_carry_what_it_is_about(lines):
    """R5: kind, namespace, name, reconcile id and reasons are on every line, also deep inside a call."""
    logger = log.get_logger("user")
    ids = []

    async def reconcile(request: Request):
        ids.append(request.reconcile_id)
        assert CURRENT_REQUEST.get() is request
        await asyncio.create_task(deep())

    async def deep():
        logger.info("working")

    async with running(controller(reconcile)) as c:
        c.queue.add(A, reason="Deployment update")
        c.queue.add(B, reason="HelloApp add")
        await asyncio.sleep(1)
    first, second = [line for line in lines() if line["event"] == "working"]
    assert first["controller"] == "hello"
    assert (first["kind"], first["namespace"], first["name"]) == ("HelloApp", "prod", "a")
    assert first["reasons"] == ["Deployment update"]
    assert [first["reconcile_id"], second["reconcile_id"]] == ids
    assert len(set(ids)) == 2


@virtual_time
async def test_metrics_have_the_names_that_dashboards_know():
    """R5: metrics carry controller-runtime's names and labels."""
    scraped = {}

    async def reconcile(request: Request):
        if request.key == B:
            raise TerminalError("no such region")
        scraped.update(
            {
                name: REGISTRY.get_sample_value(name, labels)
                for name, labels in [
                    ("workqueue_depth", {"name": "hello", "controller": "hello", "priority": "0"}),
                    ("controller_runtime_active_workers", {"controller": "hello"}),
                    ("controller_runtime_max_concurrent_reconciles", {"controller": "hello"}),
                    ("workqueue_longest_running_processor_seconds", {"name": "hello", "controller": "hello"}),
                ]
            }
        )

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        c.queue.add(B)
        await asyncio.sleep(1)
        value = REGISTRY.get_sample_value
        both = {"name": "hello", "controller": "hello"}
        assert scraped["workqueue_depth"] == 1
        assert scraped["controller_runtime_active_workers"] == 1
        assert scraped["controller_runtime_max_concurrent_reconciles"] == 1
        assert scraped["workqueue_longest_running_processor_seconds"] == 0
        assert value("workqueue_adds_total", both) == 2
        assert value("workqueue_queue_duration_seconds_count", both) == 2
        assert value("workqueue_work_duration_seconds_count", both) == 2
        assert value("workqueue_retries_total", both) == 0
        assert value("workqueue_unfinished_work_seconds", both) == 0
        assert value("controller_runtime_reconcile_total", {"controller": "hello", "result": "success"}) == 1
        assert value("controller_runtime_reconcile_total", {"controller": "hello", "result": "error"}) == 1
        assert value("controller_runtime_reconcile_errors_total", {"controller": "hello"}) == 1
        assert value("controller_runtime_terminal_reconcile_errors_total", {"controller": "hello"}) == 1
        assert value("controller_runtime_reconcile_panics_total", {"controller": "hello"}) == 0
        assert value("controller_runtime_reconcile_time_seconds_count", {"controller": "hello"}) == 2
    assert REGISTRY.get_sample_value("workqueue_adds_total", both) is None


@virtual_time
async def test_a_terminal_error_is_not_retried_and_is_reported_once():
    """Q5: a terminal error is left alone until something happens."""
    told, runs = [], []

    async def reconcile(request: Request):
        runs.append(request.reasons)
        raise TerminalError("no such region", reason="BadRegion")

    c = controller(reconcile, on_error=lambda request, problem, terminal: told.append((problem.reason, terminal)))
    async with running(c):
        c.queue.add(A, reason="x")
        await asyncio.sleep(5000)
        c.queue.add(A, reason="y")
        await asyncio.sleep(1)
    assert runs == [("x",), ("y",)]
    assert told == [("BadRegion", True)] * 2


@virtual_time
async def test_results_and_retries_come_back_when_they_asked():
    """Q6: `Result(requeue_after)` and `RequeueError(after)` are kept to the second."""
    runs = []

    async def reconcile(request: Request):
        runs.append(round(now() - start, 3))
        match len(runs):
            case 1:
                return Result(requeue_after=30)
            case 2:
                raise RequeueError("waiting for the volume", after=12)
            case 3:
                raise RequeueError("soon")

    start = now()
    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(100)
    assert runs == [0, 30, 42, 42.005]
    assert (c.stats.requeue_after, c.stats.requeue, c.stats.error) == (1, 2, 0)


@virtual_time
async def test_a_wrong_return_value_is_an_error_that_says_what_to_return(lines):
    """R1: a mistake in user code is reported in its own words."""

    async def reconcile(request: Request):
        return 30 if request.attempt == 1 else None

    async with running(controller(reconcile)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    assert c.stats.error == 1
    assert any("returns None or a Result, not 30" in line.get("error", "") for line in lines())


@virtual_time
async def test_a_reporter_that_fails_does_not_end_the_worker():
    """R1: reporting an error must not make another."""

    async def reconcile(request: Request):
        if request.attempt < 3:
            raise ValueError("bad")

    def on_error(*_: object) -> None:
        raise RuntimeError("reporter broke")

    async with running(controller(reconcile, on_error=on_error)) as c:
        c.queue.add(A)
        await asyncio.sleep(1)
    assert c.stats.success == 1


@virtual_time
async def test_a_plain_function_runs_in_a_bounded_pool_of_threads():
    """R6: a blocking reconcile runs in threads, at most as many as there are workers."""
    lock, names, together, most = threading.Lock(), set(), 0, 0

    def reconcile(request: Request):
        nonlocal together, most
        assert CURRENT_REQUEST.get() == request
        with lock:
            together += 1
            most = max(most, together)
            names.add(threading.current_thread().name)
        time.sleep(0.01)
        with lock:
            together -= 1

    async with running(controller(reconcile, workers=2)) as c:
        for n in range(6):
            c.queue.add(Key("prod", str(n)))
        await until(lambda: c.stats.success == 6)
    assert most <= 2
    assert threading.main_thread().name not in names


async def test_a_plain_function_that_overstays_keeps_its_key_until_it_ends():
    """R6: a thread cannot be cut off, so its key is not given to another worker meanwhile (Q1)."""
    release, runs = threading.Event(), []

    def reconcile(request: Request):
        runs.append(request.attempt)
        release.wait(5)

    async with running(controller(reconcile, workers=2, timeout=0.02)) as c:
        c.queue.add(A)
        await until(lambda: c.stats.timeouts)
        c.queue.add(A)
        await asyncio.sleep(0.02)
        assert runs == [1]
        release.set()
        await until(lambda: c.stats.success == 2)


async def test_a_stalled_loop_is_reported_with_the_stack_that_stalls_it(lines):
    """R6: a loop stall is reported with the stack that caused it, once per stall."""

    def culprit():
        time.sleep(0.5)

    with LoopWatchdog(threshold=0.1) as dog:
        await asyncio.sleep(0.01)
        culprit()
        await asyncio.sleep(0)
    assert dog.reports == 1
    (report,) = [line for line in lines() if line["event"] == "event_loop_blocked"]
    assert "in culprit" in report["stack"]


async def test_a_stall_that_is_hardly_longer_than_the_threshold_is_reported():
    """R6: although the watchdog looks no more often than it must."""
    with LoopWatchdog(threshold=0.2) as dog:
        for _ in range(3):
            await asyncio.sleep(0.05)
            time.sleep(0.25)  # noqa: ASYNC251 - the stall
    assert dog.reports == 3


async def test_the_verdict_on_the_loop_needs_nothing_from_the_loop():
    """R6: liveness does not depend on the stalled loop's good will."""
    answers = []
    with LoopWatchdog(threshold=0.1) as dog:
        await asyncio.sleep(0.05)
        assert dog.stalled_for() == 0

        def probe():
            time.sleep(0.25)
            answers.append(dog.stalled_for())

        prober = threading.Thread(target=probe)
        prober.start()
        time.sleep(0.3)  # noqa: ASYNC251 - the stall
        prober.join()
    assert answers[0] > 0.1


def test_options_that_make_no_sense_are_refused():
    async def reconcile(request: Request): ...

    with pytest.raises(ValueError, match="workers=0"):
        Controller("x", reconcile, workers=0)
    with pytest.raises(ValueError, match="timeout=-1"):
        Controller("x", reconcile, timeout=-1)
