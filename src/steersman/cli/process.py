"""One replica as the life of this process: logging, event loop, signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from steersman.cli.loading import load_operator
from steersman.client.config import Config, load_config
from steersman.operator.operator import Operator
from steersman.operator.run import run_operator
from steersman.operator.settings import Settings
from steersman.telemetry.log import configure

__all__ = ["config_for", "run_replica"]


def config_for(settings: Settings) -> Config:
    """The cluster that the settings mean. Raises `ConfigError`."""
    if settings.server:
        return Config.for_url(settings.server)
    return load_config(settings.kubeconfig, settings.context)


def run_replica(target: str, settings: Settings, prepare: Callable[[Operator], None] | None = None) -> int:
    """Load the operator, run it until a signal, and return the exit code. Raises what went wrong.

    `prepare` is called with the operator before it runs.
    """
    configure(level=settings.log_level, format=settings.log_format)
    operator = load_operator(target)
    operator.check()
    if prepare is not None:
        prepare(operator)
    config = config_for(settings)
    with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
        return runner.run(_until_signal(operator, config, settings))


async def _until_signal(operator: Operator, config: Config, settings: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asked = 0

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            loop.call_soon_threadsafe(stop.set)
        elif number == signal.SIGINT:
            # The loop may be what hangs. Nothing is lost: the cluster holds all state, and the lease expires.
            os.write(sys.stderr.fileno(), b"aborted\n")
            os._exit(130)

    # Plain handlers, not the loop's: they run even while something blocks the loop.
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        await run_operator(operator, config, settings, stop=stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _loop_factory(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not settings.uvloop:
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
