"""Reads one watch stream: splits its chunks into lines and feeds the informer, in the call that delivers the bytes.

The transport calls `StreamReader.take`. When that returns, the keys are in the work queue, and no task was woken. The
reflector loop's task runs only for what must be awaited: the end of the initial events, and pauses in which events
accumulate at high rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from steersman.cache.informer import Informer, InitialEventsEnd
from steersman.cache.lines import Line, LineSplitter

__all__ = ["BATCH_SECONDS", "StreamReader", "Watchdog"]

YIELD_AFTER_BYTES: Final = 512 * 1024
"""Bytes after which the reader yields to other tasks, in case all bytes are available at once."""
BATCH_SECONDS: Final = 0.005
"""Seconds of a pause in which events accumulate at high rates, because a wake-up costs more than an event. There is no
pause while a reader waits for an own write."""
BATCH_MAX_EVENTS: Final = 50
"""Initial events in one chunk above which there is no pause."""
BATCH_MAX_BYTES: Final = 32 * 1024
"""Bytes in one chunk above which there is no pause: transports deliver chunks of up to 64 KiB."""
HIGH_EVENTS_PER_SECOND: Final = 1000
"""The event rate above which pauses save CPU time. At 500 events a second they saved nothing and added 8 ms."""
RATE_WINDOW_SECONDS: Final = 0.25
"""The shortest window over which the event rate is measured."""
IDLE_READ_MIN_SECONDS: Final = 0.0002
"""Reads that take longer than this have waited for the server, and not only for another thread."""


class Watchdog:
    """Ends a stream that is silent for too long, with one timer that is moved only when it fires."""

    __slots__ = ("_deadline", "_handle", "_limit", "_loop", "last")

    def __init__(self, limit: float, deadline: asyncio.Timeout) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._deadline = deadline
        self.last = self._loop.time()
        """The time of the last bytes from the server."""
        self._handle = self._loop.call_later(limit, self._look)

    def stop(self) -> None:
        """Cancel the timer."""
        self._handle.cancel()

    def _look(self) -> None:
        due = self.last + self._limit
        if self._loop.time() >= due:
            self._deadline.reschedule(self._loop.time())
        else:
            self._handle = self._loop.call_at(due, self._look)


class EventRate:
    """Measures whether the event rate is so high that pauses between reads save CPU time."""

    __slots__ = ("_events", "_since", "high")

    def __init__(self, now: float) -> None:
        self._events = 0
        self._since = now
        self.high = False

    def received(self, events: int, now: float) -> None:
        """Count events that arrived by `now`."""
        self._events += events
        if (spent := now - self._since) >= RATE_WINDOW_SECONDS:
            # After an interval without events, earlier events (perhaps the initial list) do not count.
            self.high = spent < 2 * RATE_WINDOW_SECONDS and self._events > HIGH_EVENTS_PER_SECOND * spent
            self._events, self._since = 0, now


class StreamReader:
    """The reader of one stream; calls `received` after each chunk that completed lines."""

    __slots__ = (
        "_asked",
        "_count",
        "_dry",
        "_gathers",
        "_informer",
        "_now",
        "_pace",
        "_record_received",
        "_size",
        "_split",
        "_taken",
        "_watchdog",
        "collects",
        "fed",
    )

    def __init__(self, informer: Informer, watchdog: Watchdog, received: Callable[[], None], *, collects: bool) -> None:
        self._informer = informer
        self._watchdog = watchdog
        self._record_received = received
        self._split = LineSplitter().feed
        self._now = asyncio.get_running_loop().time
        self._asked = self._now()
        self._pace = EventRate(self._asked)
        self._taken = 0
        self._count = 0
        self._size = 0
        self._dry = self._gathers = False
        self.collects = collects
        """Whether the stream delivers initial events, of which only the last is urgent."""
        self.fed: InitialEventsEnd | None = None
        """Set when the initial events have ended; `go_on` processes the lines after them."""

    def take(self, chunk: bytes) -> bool:
        """Process a chunk; true if the caller must handle `fed` and await `pause` before the next chunk.

        Raises the errors of `Informer.feed`.
        """
        watchdog = self._watchdog
        watchdog.last = now = self._now()
        self._dry = now - self._asked > IDLE_READ_MIN_SECONDS
        size = self._size = len(chunk)
        self._taken += size
        lines = self._split(chunk)
        if not lines:
            self._asked = self._now()
            return self._taken > YIELD_AFTER_BYTES
        self._count = len(lines)
        self.fed = fed = self._informer.feed(lines)
        return fed is not None or self._done()

    def go_on(self, lines: Sequence[Line]) -> None:
        """Process the lines after the end of the initial events."""
        self.fed = self._informer.feed(lines)
        if self.fed is None:
            self._done()

    def _done(self) -> bool:
        self._record_received()
        pace = self._pace
        pace.received(self._count, self._watchdog.last)
        # kube-apiserver sends each initial event in a separate TLS record.
        few = self._count < BATCH_MAX_EVENTS and self._size < BATCH_MAX_BYTES
        gathers = (self._dry and pace.high) or (self.collects and few)
        self._gathers = gathers and not self._informer.writes.awaited
        self._asked = self._now()
        return self._gathers or self._taken > YIELD_AFTER_BYTES

    async def pause(self) -> None:
        """Let events accumulate at a high rate, or yield to other tasks after many bytes."""
        if self._gathers:
            self._gathers = False
            await asyncio.sleep(BATCH_SECONDS)
        elif self._taken > YIELD_AFTER_BYTES:
            self._taken = 0
            await asyncio.sleep(0)
            self._watchdog.last = self._now()
        self._asked = self._now()
