"""The Steersman peer with clocks: the CPU time of each stage of an event and its reconcile, in plain Python.

The functions in which stages begin are replaced by functions that read the CPU clock of the thread. The time of a stage
does not include that of the stages that it calls. Each report is preceded by one of the stages.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.peers import steersman_peer, widget_operator
from benchmarks.peers.meter import Meter

LOOP: Final = "event loop and worker, with the read from the socket"


class Clocks:
    """CPU nanoseconds by stage, of one thread."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {LOOP: 0}
        self._stack = [LOOP]
        self._thread = 0
        self._since = 0

    def bind(self) -> None:
        """Measure the current thread from now on."""
        self._thread, self._since = threading.get_ident(), time.thread_time_ns()

    def enter(self, stage: str) -> None:
        """Begin a stage inside the current one."""
        now = time.thread_time_ns()
        self._add(now)
        self._stack.append(stage)
        self._since = time.thread_time_ns()

    def leave(self) -> None:
        """End the current stage."""
        self._add(time.thread_time_ns())
        self._stack.pop()
        self._since = time.thread_time_ns()

    def _add(self, now: int) -> None:
        stage = self._stack[-1]
        self.spent[stage] = self.spent.get(stage, 0) + now - self._since

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a stage; a coroutine function is one between its awaits."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def begun(*args: Any, **kwargs: Any) -> Any:
                return await _Steps(self, stage, function(*args, **kwargs))

            return begun

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            self.enter(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return wrapped


class _Steps:
    """An awaitable that measures the steps of a coroutine."""

    def __init__(self, clocks: Clocks, stage: str, coroutine: Any) -> None:
        self._clocks, self._stage, self._coroutine = clocks, stage, coroutine

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        self._clocks.enter(self._stage)
        try:
            return self._coroutine.send(value)
        finally:
            self._clocks.leave()

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()


clocks = Clocks()


def install() -> None:
    """Replace the functions in which stages begin."""
    from steersman.cache import informer, store
    from steersman.cache.entry import Entry
    from steersman.cache.stream_reader import StreamReader
    from steersman.client.transport.connection import Connection
    from steersman.client.transport.http2.receiver import FrameReceiver
    from steersman.client.transport.tls import TlsLayer
    from steersman.controller.loop_activity import LoopActivity
    from steersman.controller.queue import WorkQueue
    from steersman.controller.sources import SourceHandler
    from steersman.operator.reconciler import Reconciler

    stages: list[tuple[Any, str, str]] = [
        (LoopActivity, "select", "wait for the socket"),
        (Connection, "buffer_updated", "connection"),
        (TlsLayer, "decrypt", "TLS record"),
        (FrameReceiver, "received", "HTTP/2 frames"),
        (StreamReader, "take", "lines of the watch"),
        (informer, "parse_event", "type and metadata"),
        (store.Store, "apply", "cache"),
        (store.Store, "compress", "compression"),
        (SourceHandler, "handle", "predicates"),
        (WorkQueue, "add", "queue: add"),
        (WorkQueue, "take", "queue: take"),
        (WorkQueue, "done", "queue: done"),
        (Reconciler, "_reconcile", "reconcile"),
        (Entry, "object_once", "decode the object"),
    ]
    for owner, name, stage in stages:
        setattr(owner, name, clocks.timed(stage, getattr(owner, name)))


class _TimedMeter(Meter):
    """Reports the stages with all other numbers."""

    def _report(self, name: str, stamps: list[tuple[str, int]]) -> None:
        if name == "asked":
            sys.stdout.write(json.dumps({"mark": "stages", "spent": clocks.spent}) + "\n")
        super()._report(name, stamps)


def main() -> int:
    """Run the peer with clocks."""
    install()
    widget_operator.meter.__class__ = _TimedMeter
    declared = widget_operator.synced

    async def synced() -> None:
        clocks.bind()
        await declared()

    widget_operator.synced = synced
    return steersman_peer.main()


if __name__ == "__main__":
    sys.exit(main())
