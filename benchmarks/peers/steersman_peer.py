"""The Steersman peer: what `steersman run` does with an operator, or informers with a handler that counts.

Leader election, probes and the metrics server are off, as they are in the other peers; logs are as by default.
A combination that it cannot do ends it with status 3.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from typing import Any

from benchmarks.peers import core_installation, widget_operator  # noqa: F401 - imported for its effect
from benchmarks.peers.kinds import FORMS, MIXED, kind_of
from benchmarks.peers.widget_operator import meter
from steersman.cache import Cache, Change, ProcessMemory
from steersman.cli.run.replica import run_replica
from steersman.client import Client
from steersman.client.config import load_config
from steersman.operator import Settings


def count(change: Change) -> None:
    if change.type == "add":
        meter.seen += 1
    else:
        meter.events += 1


async def inform(options: argparse.Namespace) -> None:
    """Keep the kinds in a cache until a signal."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    plurals = MIXED if options.kind == "mixed" else (options.kind,)
    async with Client(load_config(options.kubeconfig)) as client:
        cache = Cache(client, memory=ProcessMemory())
        for plural in plurals:
            for namespace in namespaces(options) or (None,):
                cache.informer(kind_of(plural, options.form), namespace=namespace).add_handler(count)
        await cache.start()
        await cache.wait_synced()
        meter.mark("synced")
        await stop.wait()
        await cache.close()


def namespaces(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(f"bench-{n}" for n in range(options.namespaces))


def main() -> int:
    options = _options()
    if problem := _impossible(options):
        print(problem, file=sys.stderr)
        return 3
    meter.mark("starting")
    meter.obey()
    if options.mode == "informer":
        with asyncio.Runner(loop_factory=None if options.asyncio else _uvloop()) as runner:
            runner.run(inform(options))
        return 0
    widget_operator.operator = widget_operator.declared(  # type: ignore[attr-defined] - a module that users write has one
        options.mode, options.kind, options.form, options.controllers, options.workers
    )
    settings = Settings(
        kubeconfig=options.kubeconfig,
        namespaces=namespaces(options),
        leader_elect=False,
        metrics_bind_address="0",
        health_probe_bind_address="0",
        uvloop=not options.asyncio,
    )
    return run_replica("benchmarks.peers.widget_operator:operator", settings)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets", choices=(*MIXED, "mixed"))
    parser.add_argument("--mode", default="informer", choices=("informer", "noop", "patch", "apply"))
    parser.add_argument("--form", default="typed", choices=FORMS)
    parser.add_argument("--wire", default="json")
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--namespaces", type=int, default=0)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--asyncio", action="store_true", help="the standard library's event loop")
    return parser.parse_args()


def _impossible(options: argparse.Namespace) -> str:
    if options.wire != "json":
        return "Steersman speaks JSON only"
    if options.mode != "informer" and options.kind == "mixed":
        return "kind mixed is there for mode informer"
    if options.mode in ("patch", "apply") and options.kind != "widgets":
        return f"mode {options.mode} is there for Widgets"
    if options.form == "metadata" and options.mode in ("patch", "apply"):
        return f"mode {options.mode} needs the spec"
    if options.mode == "apply" and options.form != "typed":
        return "mode apply is there for typed Widgets"
    if options.mode == "informer" and options.controllers > 1:
        return "mode informer has no controllers"
    return ""


def _uvloop() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
