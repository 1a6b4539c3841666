"""Two operators on Widgets, written as users of Steersman write them: one that only reads, one that reports.

The predicate `counting` and the meter are the benchmark's; everything else is an ordinary operator.
"""

from __future__ import annotations

from benchmarks.peers.meter import STAMP, Meter
from benchmarks.peers.widget import Widget, WidgetStatus
from steersman import Operator, Predicate, generation_changed
from steersman.cache.entry import Change

meter = Meter()


def counted(change: Change) -> bool:
    """Lets every change pass."""
    if change.type == "add":
        meter.seen += 1
    else:
        meter.events += 1
    return True


counting = Predicate("counting", lambda _view: counted)
"""Stands behind `generation_changed` and counts what that lets through."""

reading = Operator("bench-reading")
reporting = Operator("bench-reporting")


@reading.controller(where=generation_changed & counting, workers=16)
async def read(widget: Widget) -> None:
    meter.reconciles += 1
    meter.stamped(widget.metadata.annotations.get(STAMP))
    if meter.reconciles == 1:
        meter.mark("first-reconcile")


@reporting.controller(where=generation_changed & counting, workers=16)
async def report(widget: Widget) -> WidgetStatus:
    metadata = widget.metadata
    meter.reconciles += 1
    meter.stamped(metadata.annotations.get(STAMP))
    if meter.reconciles == 1:
        meter.mark("first-reconcile")
    return WidgetStatus(
        observed_generation=metadata.generation,
        phase="Ready",
        ready_replicas=widget.spec.replicas,
        endpoint=f"{metadata.name}.{metadata.namespace}.svc:8080",
    )


@reading.on_startup
@reporting.on_startup
async def synced() -> None:
    meter.mark("synced")
