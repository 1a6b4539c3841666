"""The controllers in a thread with an event loop of its own: for tests and programs that have none, or another.

They share nothing with the caller but the interpreter.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from steersman.client import Config
from steersman.models.wire import decoder
from steersman_cluster.controllers.operator import operator, run

__all__ = ["running"]

_JOIN_SECONDS = 30.0


@contextmanager
def running(config: Config, **choice: Any) -> Generator[None, None, None]:
    """Run the controllers for the time of a block; `choice` is what `run` takes. Raises what ended them early."""
    for view in operator().kinds():  # msgspec's types must not be built in two threads at once
        decoder(view.type)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            loop.run_until_complete(run(config, stop=stop, **choice))
        except BaseException as problem:  # noqa: BLE001 - raised again at the end of the block
            problems.append(problem)
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="controllers")
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(_JOIN_SECONDS)
    if problems:
        raise problems[0]
