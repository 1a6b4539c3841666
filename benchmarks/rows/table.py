"""All rows: sizes, peers and bars.

Rows are planned twice, and the rows of small operators (few events, start, idle, import) five times. What the planned
rounds leave of the budget goes to the closest calls.

Bars are ratios to controller-runtime unless they say otherwise; a metric without a bar is reported all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.harness import Bench
from benchmarks.rows.cold import first_pass, namespaces
from benchmarks.rows.life import cold_start, idle, imports, shutdown
from benchmarks.rows.load import applies, backlog, controllers, events, latencies, patches, reconciles
from benchmarks.rows.model import (
    CEILING,
    CLIENT_GO,
    INTERPRETED,
    INTERPRETED_PLAIN,
    JAVA,
    KOPF,
    KOPF_UVLOOP,
    KUBE_RS,
    OFFICIAL,
    OURS,
    PLAIN,
    PROTOBUF,
    THEIRS,
    Bar,
    Numbers,
    Row,
    Size,
)
from benchmarks.rows.sync import relist, sync

RUNS = 2
"""Planned runs of a row."""
SMALL = 5
"""Planned runs of the rows of small operators."""
LINEAR = 1.05
"""The largest exponent with which a total may grow."""
TEN = ("1k", "10k", "100k")
BUILT_IN = Bar("cpu_us", 0.8, PROTOBUF)
"""Built-in kinds, which controller-runtime reads as protobuf."""


def _forms(form: str, *peers: str) -> tuple[str, ...]:
    return tuple(f"{peer}+{form}" for peer in peers)


def _growing(metrics: tuple[str, ...], family: str, ends: tuple[str, ...]) -> tuple[Bar, ...]:
    names = tuple(f"{family}-{end}" for end in ends)
    return tuple(Bar(metric, LINEAR, "", over=names) for metric in metrics)


def _sync_rows() -> Iterator[Row]:
    grows = {family: _growing(("total_cpu_ms", "total_mb"), family, TEN) for family in ("sync-widgets", "sync-pods")}
    everybody = (OURS, THEIRS, INTERPRETED, CLIENT_GO, KUBE_RS, OFFICIAL)
    cpu = Bar("cpu_us", 0.12)
    for end, count in zip(TEN, (1_000, 10_000, 100_000), strict=True):
        small, largest = end == TEN[0], end == TEN[-1]
        yield Row(
            f"sync-widgets-{end}", f"Initial sync, {count:,} custom resources of 1.2 KB", sync,
            Size("widgets", count), Size("widgets", max(500, count // 20)),
            everybody if end == "10k" else (OURS, THEIRS, KUBE_RS),
            (cpu, *([] if small else [Bar("bytes", 0.3)]), *(grows["sync-widgets"] if largest else ())),
            {OFFICIAL: Size("widgets", 5_000)}, "Initial sync", "sync-widgets", count,
        )  # fmt: skip
    for end, count in zip(TEN, (1_000, 10_000, 100_000), strict=True):
        small, largest = end == TEN[0], end == TEN[-1]
        yield Row(
            f"sync-pods-{end}", f"Initial sync, {count:,} Pods of 5 KB with managedFields", sync,
            Size("pods", count), Size("pods", max(500, count // 20)),
            (OURS, THEIRS, PROTOBUF),
            (cpu, BUILT_IN, *([] if small else [Bar("bytes", 0.15)]), *(grows["sync-pods"] if largest else ())),
            {THEIRS: Size("pods", 10_000), PROTOBUF: Size("pods", 20_000)} if largest else {},
            "Initial sync", "sync-pods", count,
        )  # fmt: skip
    yield Row(
        "sync-configmaps", "Initial sync, 300 ConfigMaps of 100 KB", sync,
        Size("configmaps", 300), Size("configmaps", 50), (OURS, THEIRS, PROTOBUF), (cpu, BUILT_IN),
        section="Initial sync",
    )  # fmt: skip
    for count in (10_000, 30_000):
        yield Row(
            f"sync-mixed-{count // 1000}k", f"Initial sync of 11 kinds, {count:,} real-world objects", sync,
            Size("mixed", count), Size("mixed", count // 10),
            (OURS, THEIRS, PROTOBUF, CLIENT_GO, KUBE_RS) if count == 10_000 else (OURS, THEIRS, PROTOBUF),
            (cpu, BUILT_IN, Bar("bytes", 0.15)), {THEIRS: Size("mixed", 10_000)} if count > 10_000 else {},
            "Initial sync", "sync-mixed", count,
        )  # fmt: skip
    yield Row(
        "first-pass", "Initial sync and first reconcile of each, 10,000 custom resources", first_pass,
        Size("widgets", 10_000), Size("widgets", 1_000), (OURS, THEIRS, KUBE_RS), section="Initial sync",
    )  # fmt: skip


def _memory_rows() -> Iterator[Row]:
    yield Row(
        "memory-kopf", "Memory per object of a controller, 3,000 custom resources", first_pass,
        Size("widgets", 3_000), Size("widgets", 500), (OURS, KOPF), (Bar("bytes", 1 / 5, KOPF),),
        {KOPF: Size("widgets", 1_500)}, "Memory",
    )  # fmt: skip
    yield Row(
        "relist", "Memory at its peak while 10,000 Pods are listed again", relist,
        Size("pods", 10_000, 2_000), Size("pods", 1_000, 200), (OURS, THEIRS, PROTOBUF, KUBE_RS),
        smaller={THEIRS: Size("pods", 5_000, 1_000)}, section="Memory",
    )  # fmt: skip


def _event_rows() -> Iterator[Row]:
    yield Row(
        "events-saturated", "Watch event, as fast as they can be read", events,
        Size("widgets", 20_000, 40_000), Size("widgets", 2_000, 4_000),
        (OURS, THEIRS, INTERPRETED, CLIENT_GO, KUBE_RS, OFFICIAL),
        (Bar("cpu_us", 0.15),), {OFFICIAL: Size("widgets", 5_000, 10_000)}, "Events",
    )  # fmt: skip
    yield Row(
        "events-pods", "Watch event of a Pod, as fast as they can be read", events,
        Size("pods", 5_000, 15_000), Size("pods", 500, 1_000), (OURS, THEIRS, PROTOBUF),
        (Bar("cpu_us", 0.15), BUILT_IN), section="Events",
    )  # fmt: skip
    yield Row(
        "events-1000", "Watch event, 1,000 a second", events,
        Size("widgets", 1_000, 5_000, 1_000), Size("widgets", 200, 100, 1_000), (OURS, THEIRS),
        (Bar("cpu_us", 1.0),), section="Events",
    )  # fmt: skip
    yield from _few("events", "Watch event", events, "Events")


def _few(name: str, title: str, measure: Callable[[Bench, str, Size, int], Numbers], section: str) -> Iterator[Row]:
    """Few events a second, measured with the default installation."""
    for rate, count, limit in ((100, 300, 0.5), (10, 50, 0.8), (1, 6, 1.0)):
        variants = (OURS, INTERPRETED_PLAIN) if rate == 100 else ()
        yield Row(
            f"{name}-{rate}", f"{title}, {rate} a second", measure,
            Size("widgets", 1_000, count, rate), Size("widgets", 200, max(2, count // 10), rate),
            (*variants, PLAIN, THEIRS, KUBE_RS, JAVA), (Bar("cpu_us", limit, THEIRS, PLAIN),),
            section=section, runs=SMALL,
        )  # fmt: skip


def _reconcile_rows() -> Iterator[Row]:
    section = "Reconciles"
    yield Row(
        "reconcile-saturated", "Watch event and a reconcile that only reads, as fast as they can be read", reconciles,
        Size("widgets", 20_000, 20_000), Size("widgets", 2_000, 2_000), (OURS, THEIRS, KUBE_RS),
        (Bar("cpu_us", 0.25),), section=section,
    )  # fmt: skip
    yield from _few("reconcile", "Watch event and a reconcile that only reads", reconciles, section)
    fewer = Size("widgets", 1_000, 1_000)
    yield Row(
        "patch-saturated", "Update handled with one status PATCH, as fast as they come", patches,
        Size("widgets", 10_000, 10_000), Size("widgets", 500, 500),
        (OURS, THEIRS, INTERPRETED, KUBE_RS, JAVA, KOPF_UVLOOP, PLAIN, KOPF, OFFICIAL),
        (Bar("cpu_us", 0.2), Bar("cpu_us", 1 / 30, KOPF_UVLOOP), Bar("cpu_us", 1 / 30, KOPF, PLAIN)),
        {KOPF: fewer, KOPF_UVLOOP: fewer, OFFICIAL: Size("widgets", 2_000, 2_000)}, section,
    )  # fmt: skip
    yield Row(
        "patch-100", "Update handled with one status PATCH, 100 a second", patches,
        Size("widgets", 1_000, 500, 100), Size("widgets", 200, 100, 100), (OURS, THEIRS), section=section,
    )  # fmt: skip
    yield Row(
        "apply-three", "Three children made sure of, with nothing to change, as fast as events come", applies,
        Size("widgets", 1_500, 1_500), Size("widgets", 200, 200), (OURS, THEIRS, KUBE_RS, JAVA), section=section,
    )  # fmt: skip


def _latency_rows() -> Iterator[Row]:
    later = Bar("p99_ms", 1.0)
    yield Row(
        "latency-500", "Event to reconcile, 500 events a second", latencies,
        Size("widgets", 5_000, 3_000, 500), Size("widgets", 500, 500, 500), (OURS, THEIRS, KUBE_RS), (later,),
        section="Latency",
    )  # fmt: skip
    yield Row(
        "latency-backlog", "Event to reconcile, 100,000 events at once", backlog,
        Size("widgets", 100_000, 100_000), Size("widgets", 5_000, 5_000), (OURS, THEIRS, KUBE_RS), (later,),
        section="Latency",
    )  # fmt: skip


def _life_rows() -> Iterator[Row]:
    section, everybody = "A process's life", (OURS, THEIRS, KUBE_RS, JAVA, KOPF)
    default = (OURS, INTERPRETED_PLAIN, PLAIN, THEIRS, KUBE_RS, JAVA, KOPF)
    yield Row(
        "cold-start", "From exec to the first reconcile", cold_start, Size("widgets", 1), Size("widgets", 1), default,
        (Bar("wall_ms", 300, "", PLAIN), Bar("wall_ms", 1.2, THEIRS, PLAIN)), section=section, runs=SMALL,
    )  # fmt: skip
    yield Row(
        "import", "`from steersman import Context, Model, Operator, Resource`", imports, Size(), Size(), (OURS,),
        (Bar("cpu_ms", 120, ""), Bar("rss_mb", 32, "")), section=section, runs=SMALL,
    )  # fmt: skip
    yield Row(
        "idle", "A controller with one object and nothing to do", idle,
        Size("widgets", 1, 6), Size("widgets", 1, 2), default,
        (Bar("rss_mb", 36, "", INTERPRETED_PLAIN), Bar("rss_mb", 1.2, THEIRS, INTERPRETED_PLAIN),
         Bar("rss_mb", 1.2, THEIRS, PLAIN), Bar("cpu_ms_per_s", 1.0, THEIRS, PLAIN),
         Bar("wakeups_per_min", 1.0, THEIRS, PLAIN)),
        section=section, runs=SMALL,
    )  # fmt: skip
    yield Row(
        "shutdown", "From SIGTERM to the end, with 1,000 objects and nothing to do", shutdown,
        Size("widgets", 1_000), Size("widgets", 100), everybody, section=section, once=(JAVA, KOPF),
    )  # fmt: skip


def _growth_rows() -> Iterator[Row]:
    metrics = ("total_cpu_ms", "total_mb")
    yield from _grown("controllers", (1, 10, 100), controllers, "500 events for {} of one kind", metrics)
    yield from _grown("namespaces", (1, 10, 1_000), namespaces, "10,000 objects in {}, each watched alone", metrics)


def _grown(
    family: str,
    steps: tuple[int, ...],
    measure: Callable[[Bench, str, Size, int], Numbers],
    title: str,
    metrics: tuple[str, ...],
) -> Iterator[Row]:
    ends = tuple(str(step) for step in steps)
    for step in steps:
        many = f"{step:,} {family if step > 1 else family[:-1]}"
        if family == "controllers":
            full, quick = Size("widgets", 500, 500, controllers=step), Size("widgets", 50, 50, controllers=step)
        else:
            full, quick = Size("widgets", 10_000, namespaces=step), Size("widgets", 1_000, namespaces=step)
        # controller-runtime begins with one namespace after the other, 0.1 s each: --peers measures it with 1,000, too.
        peers = (OURS,) if step == 1_000 else (OURS, THEIRS)
        yield Row(
            f"{family}-{step}", title.format(many), measure, full, quick, peers,
            _growing(metrics, family, ends) if step == steps[-1] else (),
            section="Growth", family=family, x=step, x_name=family,
        )  # fmt: skip


def _form_rows() -> Iterator[Row]:
    for form in ("unstructured", "metadata"):
        peers = _forms(form, OURS, THEIRS, CLIENT_GO, KUBE_RS)
        yield Row(
            f"sync-{form}", f"Initial sync, 5,000 Pods, {form}", sync, Size("pods", 5_000), Size("pods", 500), peers,
            section="Forms",
        )  # fmt: skip
        yield Row(
            f"reconcile-{form}", f"Watch event and a reconcile that only reads, Pods, {form}", reconciles,
            Size("pods", 5_000, 5_000), Size("pods", 500, 500), _forms(form, OURS, THEIRS, KUBE_RS),
            section="Forms",
        )  # fmt: skip


def _headroom_rows() -> Iterator[Row]:
    yield Row(
        "headroom-events", "The server's ceiling: events read and counted by a program that decodes nothing", events,
        Size("widgets", 20_000, 100_000), Size("widgets", 2_000, 10_000), (OURS, *CEILING), section="The server",
    )  # fmt: skip
    yield Row(
        "headroom-patch", "The server's ceiling: a PATCH for each event, by a program that decodes nothing", patches,
        Size("widgets", 20_000, 20_000), Size("widgets", 1_000, 1_000), (OURS, *CEILING), section="The server",
    )  # fmt: skip


def _planned(row: Row) -> Row:
    """Plan two runs of a row, unless it is one of the rows of small operators."""
    return row if row.runs == SMALL else replace(row, runs=RUNS)


ROWS: tuple[Row, ...] = tuple(
    _planned(row)
    for row in (
        *_sync_rows(),
        *_memory_rows(),
        *_event_rows(),
        *_reconcile_rows(),
        *_latency_rows(),
        *_life_rows(),
        *_growth_rows(),
        *_form_rows(),
        *_headroom_rows(),
    )
)
