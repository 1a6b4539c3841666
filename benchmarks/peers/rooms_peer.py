"""Steersman without its package `operator`: cache, controller and client, connected by hand.

It answers the same questions as `steersman_peer`; the difference between the two is what Context, leader election,
health, tracing and settings cost.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from benchmarks.peers.meter import STAMP, Meter
from benchmarks.peers.widget import Widget, WidgetStatus
from steersman.cache import Cache, Change, ProcessMemory
from steersman.client import Client
from steersman.client.config import load_config
from steersman.controller import Controller, Request, Source
from steersman.controller.status import patch_status
from steersman.k8s import ConfigMap, Pod
from steersman.predicates import Predicate, generation_changed

meter = Meter()


def count(change: Change) -> None:
    """The handler of the informer mode."""
    if change.type == "add":
        meter.seen += 1
    else:
        meter.events += 1


def counted(change: Any) -> bool:
    """Lets every change pass."""
    count(change)
    return True


counting = Predicate("counting", lambda _view: counted)
"""Stands behind `generation_changed` and counts what that lets through."""


async def run(options: argparse.Namespace) -> None:
    """Until stdin closes."""
    kind: Any = {"widgets": Widget, "pods": Pod, "configmaps": ConfigMap}[options.kind]
    async with Client(load_config(kubeconfig=options.kubeconfig)) as client:
        cache = Cache(client, memory=ProcessMemory())
        informer = cache.informer(kind)

        async def reconcile(request: Request) -> None:
            meter.reconciles += 1
            obj = cache.get(kind, request.key)
            if obj is not None:
                meter.stamped(obj.metadata.annotations.get(STAMP))
                if options.mode == "patch":
                    await report(client, obj)
            if meter.reconciles == 1:
                meter.mark("first-reconcile")

        controller = None
        if options.mode == "informer":
            informer.add_handler(count)
        else:
            source = Source(informer, name="Widget", where=(generation_changed & counting))
            controller = Controller("widget", reconcile, kind="Widget", sources=[source], workers=16)
        meter.mark("starting")
        meter.obey()
        await cache.start()
        await cache.wait_synced()
        meter.mark("synced")
        if controller is not None:
            await controller.run()
        else:
            await asyncio.Event().wait()


async def report(client: Client, widget: Widget) -> None:
    """One reconcile's status."""
    metadata = widget.metadata
    written = await patch_status(
        client,
        widget,
        WidgetStatus(
            observed_generation=metadata.generation,
            phase="Ready",
            ready_replicas=widget.spec.replicas,
            endpoint=f"{metadata.name}.{metadata.namespace}.svc:8080",
        ),
    )
    if written is not widget:
        meter.patches += 1


def main() -> None:
    """Parse what the driver says and run on uvloop where it is installed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets")
    parser.add_argument("--mode", default="informer")
    parser.add_argument("--asyncio", action="store_true")
    options, more = parser.parse_known_args()
    if more:
        print(f"put together by hand, there is no {' '.join(more)}", file=sys.stderr)
        sys.exit(3)
    try:
        if options.asyncio:
            raise ImportError
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run(options))


if __name__ == "__main__":
    main()
