"""The work queue against a model, with random interleavings on a clock of its own."""

from math import inf
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from steersman.controller.backoff import Backoff
from steersman.controller.queue_items import DEFAULT_PRIORITY, LOW_PRIORITY, Debounce
from steersman.controller.queue_state import QueueState

KEYS = st.sampled_from("abcdef")
BACKOFF = Backoff(base=0.005, cap=1000.0, jitter=0.2)


class Expected:
    """What one key is owed."""

    def __init__(self) -> None:
        self.running = False
        self.owed_by = inf  # a run must start no later than this, given a free worker
        self.failures = 0
        self.window_end = 0.0
        self.retried_early = 0  # runs within the present window
        self.promise = inf
        self.add_at = inf


class QueueMachine(RuleBasedStateMachine):
    """Drives `QueueState` as workers and events would, and keeps a book of what every key is owed."""

    debounce: Debounce | None = None

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.queue: QueueState[str] = QueueState(Random(7), backoff=BACKOFF, debounce=self.debounce, ageing=10.0)
        self.keys = {key: Expected() for key in "abcdef"}
        self.order: list[tuple[str, int]] = []

    def slack(self) -> float:
        return self.debounce.max_wait if self.debounce is not None else 0.0

    def owe(self, key: str, delay: float = 0.0) -> None:
        expected = self.keys[key]
        expected.owed_by = min(expected.owed_by, self.now + delay + self.slack())

    @rule(key=KEYS, priority=st.sampled_from([DEFAULT_PRIORITY, LOW_PRIORITY]))
    def event(self, key: str, priority: int) -> None:
        expected = self.keys[key]
        self.queue.add(key, self.now, priority, "event")
        if expected.running:
            expected.owed_by = -inf  # owed as soon as the run has ended
        elif self.now < expected.window_end:
            self.owe(key, expected.window_end - self.now)
        else:
            self.owe(key)

    @rule(key=KEYS, delay=st.floats(0.01, 50))
    def event_later(self, key: str, delay: float) -> None:
        self.queue.add_after(key, self.now, delay, DEFAULT_PRIORITY, "add_at")
        expected = self.keys[key]
        expected.add_at = min(expected.add_at, self.now + delay)
        if not expected.running:
            self.owe(key, max(delay, expected.window_end - self.now))

    @rule(seconds=st.floats(0, 30))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while self.queue.next_due() <= end:
            self.now = max(self.now, self.queue.next_due())
            self.queue.advance(self.now)
            self.timers_fire()
        self.now = end

    def timers_fire(self) -> None:
        """What fell due is owed now, and may be promised anew."""
        for key, expected in self.keys.items():
            for timer in ("promise", "add_at"):
                if getattr(expected, timer) <= self.now:
                    setattr(expected, timer, inf)
                    if expected.running:
                        expected.owed_by = -inf
                    else:
                        self.owe(key, max(0.0, expected.window_end - self.now))

    @rule()
    def take(self) -> None:
        job = self.queue.take(self.now)
        if job is None:
            schedule = [k for k, e in self.keys.items() if not e.running and -inf < e.owed_by < self.now - 1e-6]
            assert not schedule, f"owed but not ready: {schedule}"
            return
        expected = self.keys[job.key]
        assert not expected.running, "Q1: two workers have one key"
        assert job.attempt == expected.failures + 1
        if self.now < expected.window_end - 1e-9:
            expected.retried_early += 1
            assert expected.retried_early <= 1, "Q5: a backoff window was shortened twice"
        expected.running = True
        expected.owed_by = inf

    def owe_timers(self, expected: Expected, key: str) -> None:
        """What timers owe, once the key is free again; while it runs, they make it run once more."""
        if not expected.running:
            for due in (expected.promise, expected.add_at):
                if due < inf:
                    self.owe(key, max(due, expected.window_end) - self.now)

    def running(self) -> list[str]:
        return [key for key, expected in self.keys.items() if expected.running]

    def after(self, key: str, expected: Expected) -> None:
        """The run is over: whatever is still owed starts counting now."""
        expected.running = False
        dirty = expected.owed_by == -inf
        expected.owed_by = inf
        if dirty:
            self.owe(key, max(0.0, expected.window_end - self.now))
        self.owe_timers(expected, key)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), requeue=st.one_of(st.none(), st.floats(0.01, 60)))
    def succeed(self, data: st.DataObject, requeue: float | None) -> None:
        key = data.draw(st.sampled_from(self.running()))
        expected = self.keys[key]
        self.queue.done(key, self.now, requeue)
        expected.failures, expected.window_end, expected.retried_early = 0, 0.0, 0
        expected.promise = inf if requeue is None else self.now + requeue
        self.after(key, expected)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.running()))
        expected = self.keys[key]
        _, wait = self.queue.fail(key, self.now)
        if self.now < expected.window_end and expected.retried_early:
            assert abs(self.now + wait - expected.window_end) < 1e-9, "the early attempt moved the window"
        else:
            expected.failures += 1
            expected.retried_early = 0
            full = BACKOFF.full(expected.failures)
            assert 0.8 * full - 1e-9 <= wait <= full + 1e-9, "Q5: backoff out of bounds"
            expected.window_end = self.now + wait
        self.after(key, expected)
        self.owe(key, expected.window_end - self.now)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.running()))
        expected = self.keys[key]
        self.queue.give_up(key, self.now)
        expected.failures, expected.window_end, expected.retried_early = 0, 0.0, 0
        self.after(key, expected)

    @invariant()
    def running_keys_are_known(self) -> None:
        assert {key for key, _ in self.queue.running()} == set(self.running())

    @invariant()
    def failures_agree(self) -> None:
        for key, expected in self.keys.items():
            assert self.queue.failures(key) == expected.failures

    @invariant()
    def the_heap_stays_small(self) -> None:
        assert len(self.queue.timers) <= 64 + 2 * 6 + 1

    def teardown(self) -> None:
        """Nothing is lost: with workers enough, everything that is owed runs, and then all is forgotten."""
        for key in self.running():
            self.queue.done(key, self.now)
            self.keys[key].promise = inf
            self.after(key, self.keys[key])
        for _ in range(200):
            while (job := self.queue.take(self.now)) is not None:
                expected = self.keys[job.key]
                expected.owed_by = expected.promise = inf
                self.queue.done(job.key, self.now)
            if self.queue.next_due() == inf:
                break
            self.now = max(self.now, self.queue.next_due())
            self.queue.advance(self.now)
            self.timers_fire()
        assert all(e.owed_by == inf for e in self.keys.values()), "work was lost"
        assert all(e.add_at == inf for e in self.keys.values()), "a delayed add was lost"
        assert not any(key in self.queue for key in "abcdef"), "keys were not forgotten"


class DebouncedQueueMachine(QueueMachine):
    debounce = Debounce(quiet=0.5, max_wait=3.0)


COMMON = settings(max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = COMMON
TestDebouncedQueueMachine = DebouncedQueueMachine.TestCase
TestDebouncedQueueMachine.settings = settings(COMMON, max_examples=75)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghij"), st.sampled_from([DEFAULT_PRIORITY, LOW_PRIORITY, 5])), max_size=60
    )
)
def test_any_sequence_of_adds_is_served_by_priority_and_in_order(adds: list[tuple[str, int]]) -> None:
    """Q4: first in, first out within a priority, whatever the order of adds."""
    queue: QueueState[str] = QueueState(Random(1))
    expected: dict[str, tuple[int, int]] = {}
    for n, (key, priority) in enumerate(adds):
        queue.add(key, 0.0, priority)
        if key not in expected or priority > -expected[key][0]:
            expected[key] = (-priority, n)
    taken = [queue.take(0.0).key for _ in expected]  # type: ignore[union-attr]
    assert taken == sorted(expected, key=lambda key: expected[key])
    assert queue.take(0.0) is None


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 30),
    st.lists(st.integers(0, 3), min_size=200, max_size=400),
    st.floats(0.05, 2.0),
)
def test_no_flood_starves_the_initial_list(waiting: int, flood: list[int], pause: float) -> None:
    """Q3: a key of low priority waits for the ageing time, and then for at most eight gets per key before it."""
    queue: QueueState[str] = QueueState(Random(1), ageing=10.0)
    for n in range(waiting):
        queue.add(f"low-{n}", 0.0, LOW_PRIORITY)
    now, gets_since_aged, served = 0.0, 0, 0
    for round_, burst in enumerate(flood):
        for n in range(burst + 1):
            queue.add(f"fresh-{round_}-{n}", now)
        now += pause
        job = queue.take(now)
        assert job is not None
        queue.done(job.key, now)
        served += job.priority == LOW_PRIORITY
        gets_since_aged += now >= 10.0
        assert served >= min(waiting, gets_since_aged // 8)
