"""The whole runtime of Steersman with a transport of one's choice: `--transport NAME`, of `TRANSPORTS`.

What an operator does to choose one: an informer's `Client(config, transport=…)`, an operator's `Replica(transport=…)`.
Everything else is as in `steersman_peer`, whose numbers these are beside.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from benchmarks.peers.widget import Widget
from benchmarks.peers.widget_operator import meter, reading, reporting
from steersman.cache import Cache, Change, ProcessMemory
from steersman.cli.run.replica import config_for
from steersman.client import Client
from steersman.client.config import Config
from steersman.client.transport import Transport
from steersman.operator import Settings
from steersman.operator.run import Replica
from steersman.telemetry.log import configure

TRANSPORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "native": ("NativeTransport", {}),
    "native-http1": ("NativeTransport", {"http2": False}),
    "pyreqwest": ("PyreqwestTransport", {}),
    "aiohttp": ("AiohttpTransport", {}),
}
"""The names in `steersman.client.transport`, and options; a new transport is a line here."""

OPERATORS = {"noop": reading, "patch": reporting}


def make(name: str, config: Config) -> Transport:
    """The transport of that name for a cluster."""
    import steersman.client.transport as transports

    transport, options = TRANSPORTS[name]
    return getattr(transports, transport)(config, **options)


def count(change: Change) -> None:
    """The handler of the informer mode."""
    if change.type == "add":
        meter.seen += 1
    else:
        meter.events += 1


async def inform(config: Config, transport: str) -> None:
    """Keep the Widgets in a cache until the process ends."""
    async with Client(config, transport=make(transport, config)) as client:
        cache = Cache(client, memory=ProcessMemory())
        cache.informer(Widget).add_handler(count)
        await cache.start()
        await cache.wait_synced()
        meter.mark("synced")
        await asyncio.Event().wait()


async def operate(settings: Settings, mode: str, transport: str) -> None:
    """Run the operator of that mode until the process ends."""
    replica = Replica(OPERATORS[mode], config_for(settings), settings, transport=lambda config: make(transport, config))
    await replica.run(asyncio.Event())


def main() -> int:
    """Parse what the driver says and run on uvloop where it is installed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", default="widgets", choices=["widgets"])
    parser.add_argument("--mode", default="informer", choices=["informer", *OPERATORS])
    parser.add_argument("--transport", default="native", choices=TRANSPORTS)
    parser.add_argument("--asyncio", action="store_true", help="the standard library's event loop")
    options = parser.parse_args()
    settings = Settings(
        kubeconfig=options.kubeconfig,
        leader_elect=False,
        metrics_bind_address="0",
        health_probe_bind_address="0",
        uvloop=not options.asyncio,
    )
    configure(level=settings.log_level, format=settings.log_format)
    meter.mark("starting")
    meter.obey()
    with asyncio.Runner(loop_factory=None if options.asyncio else _uvloop()) as runner:
        if options.mode == "informer":
            runner.run(inform(config_for(settings), options.transport))
        else:
            runner.run(operate(settings, options.mode, options.transport))
    return 0


def _uvloop() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
