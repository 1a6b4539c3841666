"""The Steersman peer: what `steersman run` does with an operator, or one informer with a handler that counts.

Leader election, probes and the metrics server are off, as they are in the other peers; logs are as by default.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from benchmarks.peers.widget import Widget
from benchmarks.peers.widget_operator import meter
from steersman.cache import Cache, Change
from steersman.cli.process import run_replica
from steersman.client import Client
from steersman.client.config import load_config
from steersman.k8s import ConfigMap, Pod
from steersman.operator import Settings

OPERATORS = {"noop": "reading", "patch": "reporting"}


def count(change: Change) -> None:
    if change.type == "add":
        meter.seen += 1
    else:
        meter.events += 1


async def inform(kind: Any, kubeconfig: str) -> None:
    """Keep one kind in a cache until the process ends."""
    async with Client(load_config(kubeconfig)) as client:
        cache = Cache(client)
        cache.informer(kind).add_handler(count)
        await cache.start()
        await cache.wait_synced()
        meter.mark("synced")
        await asyncio.Event().wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets")
    parser.add_argument("--mode", default="informer")
    parser.add_argument("--asyncio", action="store_true", help="the standard library's event loop")
    options = parser.parse_args()
    meter.mark("starting")
    meter.obey()
    if options.mode == "informer":
        kinds = {"widgets": Widget, "pods": Pod, "configmaps": ConfigMap}
        with asyncio.Runner(loop_factory=None if options.asyncio else _uvloop()) as runner:
            runner.run(inform(kinds[options.kind], options.kubeconfig))
        return 0
    settings = Settings(
        kubeconfig=options.kubeconfig,
        leader_elect=False,
        metrics_bind_address="0",
        health_probe_bind_address="0",
        uvloop=not options.asyncio,
    )
    return run_replica(f"benchmarks.peers.widget_operator:{OPERATORS[options.mode]}", settings)


def _uvloop() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
