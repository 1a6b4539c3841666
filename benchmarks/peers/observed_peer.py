"""The Steersman peer with a record of what its event loop did: for `benchmarks.late_events`, in plain Python.

The report "observed" precedes each report that the driver asks for. All times are nanoseconds of the wall clock:

- `read` and `reconciled`: when the bytes of a change were read from the socket, and when its reconcile began, by stamp.
- `busy`: the periods in which the event loop ran callbacks.
- `work`: garbage collections, compressions of records, and trainings of dictionaries, by name.
- `saturated`: periods in which no worker was free.
- `delayed`: periods in which the thread was runnable and did not run, with the time that it missed.

The functions that mark these points are replaced by functions that read the clock.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.peers import steersman_peer, widget_operator
from benchmarks.peers.meter import STAMP, Meter

COLLECTION: Final = "garbage collection"
COMPRESSION: Final = "compression of plain records"
TRAINING: Final = "dictionary training"
_MIN_DELAY_NS: Final = 1_000_000
"""Shorter delays are not recorded."""
_STAMPED: Final = re.compile(rf'"{re.escape(STAMP)}":"(\d+)"'.encode())


class Record:
    """The recorded data of one report; `clear` discards it."""

    def __init__(self) -> None:
        self._last_read = 0
        self._busy_since = 0
        self._collection_since = 0
        self._free_workers = self._saturated_since = 0
        self._checked = self._missed = 0
        self._schedstat = os.open("/proc/self/schedstat", os.O_RDONLY)
        self.clear()

    def clear(self) -> None:
        """Discard the recorded data."""
        self.read: dict[str, int] = {}
        self.reconciled: dict[str, int] = {}
        self.busy: list[tuple[int, int]] = []
        self.work: dict[str, list[tuple[int, int]]] = {COLLECTION: [], COMPRESSION: [], TRAINING: []}
        self.saturated: list[tuple[int, int]] = []
        self.delayed: list[tuple[int, int, int]] = []

    def collected(self, phase: str, _info: dict[str, int]) -> None:
        """Receive the start and the stop of a garbage collection."""
        if phase == "start":
            self._collection_since = time.time_ns()
        else:
            self._worked(COLLECTION, self._collection_since)

    def waits(self) -> None:
        """Note that the event loop waits for events from now on."""
        now = self._check()
        if self._busy_since:
            self.busy.append((self._busy_since, now))

    def runs(self) -> None:
        """Note that the event loop runs callbacks from now on."""
        self._busy_since = self._check()

    def socket_read(self) -> None:
        """Note that bytes were read from a socket."""
        self._last_read = time.time_ns()

    def line(self, line: Any) -> None:
        """Note when a line of a watch was read that has the stamp of a change."""
        if isinstance(line, bytes) and (found := _STAMPED.search(line)):
            self.read.setdefault(found[1].decode(), self._last_read)

    def worker_waits(self) -> None:
        """Note that one more worker is free."""
        self._free_workers += 1
        if self._free_workers == 1 and self._saturated_since:
            self.saturated.append((self._saturated_since, time.time_ns()))

    def worker_runs(self) -> None:
        """Note that one worker less is free."""
        self._free_workers -= 1
        if not self._free_workers:
            self._saturated_since = time.time_ns()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; its calls are work of that name."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            since = time.time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self._worked(name, since)

        return wrapped

    def _worked(self, name: str, since: int) -> None:
        self.work[name].append((since, time.time_ns()))

    def _check(self) -> int:
        """Return the time, and note how long the thread was runnable without running since the last check."""
        now, missed = time.time_ns(), int(os.pread(self._schedstat, 64, 0).split()[1])
        if missed - self._missed >= _MIN_DELAY_NS and self._checked:
            self.delayed.append((self._checked, now, missed - self._missed))
        self._checked, self._missed = now, missed
        return now

    def report(self) -> dict[str, Any]:
        """Return the recorded data."""
        names = ("read", "reconciled", "busy", "work", "saturated", "delayed")
        return {"mark": "observed", **{name: getattr(self, name) for name in names}}


record = Record()


class _ObservedMeter(Meter):
    """Reports the record with all other numbers, and begins it anew."""

    def stamped(self, stamp: str | None) -> None:
        super().stamped(stamp)
        if stamp:
            record.reconciled.setdefault(stamp, time.time_ns())

    def _report(self, name: str, stamps: list[tuple[str, int]]) -> None:
        if name == "asked":
            sys.stdout.write(json.dumps(record.report()) + "\n")
            record.clear()
        super()._report(name, stamps)


def install() -> None:
    """Replace the functions that mark the points of the record."""
    from steersman.cache import informer, store
    from steersman.cache.codecs import Codecs
    from steersman.client.transport.connection import Connection
    from steersman.controller.loop_activity import LoopActivity
    from steersman.controller.queue import WorkQueue

    get = WorkQueue.get
    select, buffer_updated, parse = LoopActivity.select, Connection.buffer_updated, informer.parse_event

    def observed_select(self: LoopActivity, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:  # callbacks are ready: the loop does not wait
            return select(self, timeout)
        record.waits()
        try:
            return select(self, timeout)
        finally:
            record.runs()

    def observed_read(self: Connection, nbytes: int) -> None:
        record.socket_read()
        buffer_updated(self, nbytes)

    def observed_parse(line: Any, *args: Any) -> Any:
        record.line(line)
        return parse(line, *args)

    async def observed_get(self: WorkQueue[Any]) -> Any:
        record.worker_waits()
        try:
            return await get(self)
        finally:
            record.worker_runs()

    replaced: list[tuple[Any, str, Any]] = [
        (LoopActivity, "select", observed_select),
        (Connection, "buffer_updated", observed_read),
        (WorkQueue, "get", observed_get),
        (informer, "parse_event", observed_parse),
        (store.Store, "compress", record.timed(COMPRESSION, store.Store.compress)),
        (store.Store, "recompress", record.timed(COMPRESSION, store.Store.recompress)),
        (Codecs, "train", record.timed(TRAINING, Codecs.train)),
    ]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    gc.callbacks.append(record.collected)


def main() -> int:
    """Run the peer with its record."""
    install()
    widget_operator.meter.__class__ = _ObservedMeter
    return steersman_peer.main()


if __name__ == "__main__":
    sys.exit(main())
