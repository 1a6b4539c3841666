"""Metrics of queues and reconciles, with controller-runtime's names, so that its dashboards and alerts work.

The hot path increments integers; a collector converts them to metric families at each scrape. The metrics of a
controller end with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from steersman.controller.queue import WorkQueue
from steersman.controller.queue_state import DURATION_BUCKETS, RECONCILE_BUCKETS
from steersman.telemetry.families import Family
from steersman.telemetry.metrics import counter, register

__all__ = [
    "EVENTS_DROPPED",
    "EVENTS_WRITTEN",
    "LOOP_STALLS",
    "TIMER_RUNS",
    "ControllerStats",
    "Measured",
    "RuntimeCollector",
    "collector",
]

EVENTS_WRITTEN = counter("steersman_events_written", "Events written, by verb.", ["verb"])
EVENTS_DROPPED = counter("steersman_events_dropped", "Events that were not written, by reason.", ["reason"])
LOOP_STALLS = counter(
    "steersman_loop_stalls", "Times that the event loop was blocked for longer than the threshold."
).labels()
TIMER_RUNS = counter("steersman_timer_runs", "Runs of periodic functions by result.", ["timer", "result"])


class ControllerStats:
    """The counters of one controller."""

    __slots__ = (
        "active", "conflicts", "error", "handler_errors", "panics", "requeue", "requeue_after", "success", "terminal",
        "timeouts", "workers",
    )  # fmt: skip

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self.active = 0
        self.success = self.error = self.requeue = self.requeue_after = 0
        self.terminal = self.panics = self.timeouts = self.conflicts = 0
        self.handler_errors: dict[str, int] = {}


class Measured(Protocol):
    """The part of a controller that the collector reads."""

    @property
    def name(self) -> str:
        """The name of the controller, which is the value of the label `controller`."""
        ...

    @property
    def queue(self) -> WorkQueue[Any]:
        """The queue of the controller."""
        ...

    @property
    def stats(self) -> ControllerStats:
        """The counters of the controller."""
        ...


class RuntimeCollector:
    """Collects the metrics of all registered controllers; a later one replaces an earlier one of the same name."""

    def __init__(self) -> None:
        self._controllers: dict[str, Measured] = {}

    def register(self, controller: Measured) -> None:
        """Add a controller; it replaces one of the same name."""
        self._controllers[controller.name] = controller

    def unregister(self, controller: Measured) -> None:
        """Remove a controller, unless another one has replaced it."""
        if self._controllers.get(controller.name) is controller:
            del self._controllers[controller.name]

    def describe(self) -> Sequence[Family]:
        """Return the metric families without values; the registry reserves their names."""
        return [*_reconcile_families([]), *_queue_families([])]

    def collect(self) -> Sequence[Family]:
        """Return the metric families of all registered controllers."""
        # Scrapes run in another thread, so the list is copied in one step.
        controllers = list(self._controllers.values())
        return [*_reconcile_families(controllers), *_queue_families(controllers)]


def _reconcile_families(controllers: list[Measured]) -> Iterable[Family]:
    label = ["controller"]
    total = Family("counter", "controller_runtime_reconcile", "Reconciles by result.", labels=["controller", "result"])
    seconds = Family("histogram", "controller_runtime_reconcile_time_seconds", "Duration of reconciles.", labels=label)
    for c in controllers:
        for result in ("success", "error", "requeue", "requeue_after"):
            total.add([c.name, result], getattr(c.stats, result))
        # A worker has a key exactly while it reconciles it, so one observation serves both metrics.
        work = c.queue.state.work_seconds
        seconds.add_histogram([c.name], work.buckets(RECONCILE_BUCKETS), work.total)
    yield total
    yield seconds
    counters = (
        ("controller_runtime_reconcile_errors", "Reconciles that failed.", "error"),
        ("controller_runtime_terminal_reconcile_errors", "Reconciles that failed with a terminal error.", "terminal"),
        (
            "controller_runtime_reconcile_panics",
            "Reconciles that raised a programming error.",
            "panics",
        ),
        ("controller_runtime_reconcile_timeouts", "Reconciles that exceeded their timeout.", "timeouts"),
        ("steersman_reconcile_conflicts", "Reconciles retried after a 409 Conflict.", "conflicts"),
    )
    for name, doc, field in counters:
        family = Family("counter", name, doc, labels=label)
        for c in controllers:
            family.add([c.name], getattr(c.stats, field))
        yield family
    gauges = (
        ("controller_runtime_max_concurrent_reconciles", "Number of workers.", "workers"),
        ("controller_runtime_active_workers", "Workers that are reconciling now.", "active"),
    )
    for name, doc, field in gauges:
        gauge = Family("gauge", name, doc, labels=label)
        for c in controllers:
            gauge.add([c.name], getattr(c.stats, field))
        yield gauge
    handlers = Family(
        "counter",
        "steersman_handler_errors",
        "Exceptions in predicates and mappers.",
        labels=["controller", "handler"],
    )
    for c in controllers:
        for handler, count in list(c.stats.handler_errors.items()):
            handlers.add([c.name, handler], count)
    yield handlers


def _queue_families(controllers: list[Measured]) -> Iterable[Family]:
    names = ["name", "controller"]
    depth = Family("gauge", "workqueue_depth", "Keys that wait for a worker.", labels=[*names, "priority"])
    adds = Family("counter", "workqueue_adds", "Keys that became ready.", labels=names)
    waits = Family("histogram", "workqueue_queue_duration_seconds", "Time from ready to a worker.", labels=names)
    works = Family("histogram", "workqueue_work_duration_seconds", "Time with a worker.", labels=names)
    retries = Family("counter", "workqueue_retries", "Retries after a failure.", labels=names)
    unfinished = Family(
        "gauge", "workqueue_unfinished_work_seconds", "Seconds of work in progress, summed.", labels=names
    )
    longest = Family(
        "gauge", "workqueue_longest_running_processor_seconds", "Age of the longest reconcile.", labels=names
    )
    for c in controllers:
        queue, state, labels = c.queue, c.queue.state, [c.name, c.name]
        for priority, count in state.depths().items():
            depth.add([*labels, str(priority)], count)
        adds.add(labels, sum(state.adds().values()))
        waits.add_histogram(labels, state.queue_seconds.buckets(), state.queue_seconds.total)
        works.add_histogram(labels, state.work_seconds.buckets(DURATION_BUCKETS), state.work_seconds.total)
        retries.add(labels, state.retries)
        ages = _ages(queue)
        unfinished.add(labels, sum(ages))
        longest.add(labels, max(ages, default=0.0))
    yield from (depth, adds, waits, works, retries, unfinished, longest)


def _ages(queue: WorkQueue[Any]) -> list[float]:
    now = queue.now()
    return [max(0.0, now - since) for _, since in queue.state.running()]


collector = RuntimeCollector()
register(collector)
