"""The operators of our peer, written as users of Steersman write them: reading, reporting, and applying children.

The predicate `counting` and the meter are the benchmark's; everything else is an ordinary operator.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.kinds import kind_of
from benchmarks.peers.meter import STAMP, Meter
from benchmarks.peers.widget import Widget, WidgetStatus
from steersman import Context, Operator
from steersman.cache.entry import Change
from steersman.predicates import Predicate, generation_changed

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


def declared(mode: str, kind: str, form: str, controllers: int, workers: int) -> Operator:
    """An operator with so many controllers of a kind; the first counts events, each counts its reconciles."""
    view = kind_of(kind, form)
    operator = Operator(f"bench-{mode}")
    operator.on_startup(synced)
    owns: tuple[type[Any], ...] = ()
    if mode == "apply":
        from benchmarks.peers.children import KINDS as owns  # noqa: N811 - only this mode pays for their import
    reconcile: Any = {"noop": read, "patch": report if form == "typed" else report_plainly, "apply": make_sure}[mode]
    for n in range(controllers):
        where = generation_changed & counting if n == 0 else generation_changed
        name = None if n == 0 else f"bench-{n}"
        operator.controller(name=name, kind=view, owns=owns, where=where, workers=workers)(reconcile)
    return operator


async def synced() -> None:
    meter.mark("synced")


async def read(obj: Any) -> None:
    begun(obj.metadata)


async def report(widget: Widget) -> WidgetStatus:
    metadata = widget.metadata
    begun(metadata)
    return WidgetStatus(
        observed_generation=metadata.generation,
        phase="Ready",
        ready_replicas=widget.spec.replicas,
        endpoint=f"{metadata.name}.{metadata.namespace}.svc:8080",
    )


async def report_plainly(widget: Any) -> dict[str, Any]:
    metadata = widget.metadata
    begun(metadata)
    return {
        "observedGeneration": metadata.generation,
        "phase": "Ready",
        "readyReplicas": widget.get("spec", "replicas"),
        "endpoint": f"{metadata.name}.{metadata.namespace}.svc:8080",
    }


async def make_sure(widget: Widget, ctx: Context) -> None:
    from benchmarks.peers.children import config_of, deployment_of, service_of

    begun(widget.metadata)
    await ctx.apply(config_of(widget))
    await ctx.apply(service_of(widget))
    await ctx.apply(deployment_of(widget))


def begun(metadata: Any) -> None:
    """Record the start of a reconcile."""
    meter.reconciles += 1
    meter.stamped(metadata.annotations.get(STAMP))
    if meter.reconciles == 1:
        meter.mark("first-reconcile")


reading = declared("noop", "widgets", "typed", 1, 16)
reporting = declared("patch", "widgets", "typed", 1, 16)
