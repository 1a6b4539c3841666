"""Reading one watch stream: its chunks become lines, the lines changes of the informer, right where the bytes arrive.

While events come singly, no task is woken for them: the transport calls `Reading.take`, and a key is in the queue when
that returns. The shell's task is only needed for what has to be awaited: the end of the initial events, and pauses in
which events gather where they come thick and fast.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from steersman.cache.informer import Fed, Informer
from steersman.cache.lines import Line, LineSplitter

__all__ = ["GATHER", "Reading", "Watchdog"]

YIELD_EVERY: Final = 512 * 1024
"""Bytes after which other tasks get their turn, in case the transport has everything ready at once."""
GATHER: Final = 0.005
"""Seconds to let events gather where they come thick and fast: each wake-up for a single event costs more than the
event. Who waits for an own write must not wait for more than that, and then nothing gathers."""
MANY_AT_ONCE: Final = 50
"""Initial events that are worth a wake-up."""
MUCH_AT_ONCE: Final = 32 * 1024
"""The same in bytes: transports give what comes at once in pieces of up to 64 KB, and shall not wait between two."""
CROWDED: Final = 1000
"""Events a second from which on gathering pays. At 500 a second it saved nothing and cost 8 ms of latency."""
STRETCH: Final = 0.25
"""Seconds over which events are counted."""
DRY: Final = 0.0002
"""Seconds from which on a read has waited for the server, and not only for another thread."""


class Watchdog:
    """One timer per stream: moved lazily, so that a chunk costs no timer operation."""

    __slots__ = ("_deadline", "_handle", "_limit", "_loop", "last")

    def __init__(self, limit: float, deadline: asyncio.Timeout) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._deadline = deadline
        self.last = self._loop.time()
        """When the server last said anything."""
        self._handle = self._loop.call_later(limit, self._look)

    def stop(self) -> None:
        """Nobody reads any more."""
        self._handle.cancel()

    def _look(self) -> None:
        due = self.last + self._limit
        if self._loop.time() >= due:
            self._deadline.reschedule(self._loop.time())
        else:
            self._handle = self._loop.call_at(due, self._look)


class Pace:
    """Whether events trickle in so fast that it pays to let some gather before the next read."""

    __slots__ = ("_events", "_since", "crowded")

    def __init__(self, now: float) -> None:
        self._events = 0
        self._since = now
        self.crowded = False

    def took_in(self, events: int, now: float) -> None:
        """So many have come."""
        self._events += events
        if (spent := now - self._since) >= STRETCH:
            # After a lull, what came before it (the whole initial content perhaps) says nothing of now.
            self.crowded = spent < 2 * STRETCH and self._events > CROWDED * spent
            self._events, self._since = 0, now


class Reading:
    """What has been read of one stream. `took_in` is called after each chunk that had whole lines."""

    __slots__ = (
        "_asked",
        "_count",
        "_dry",
        "_gathers",
        "_informer",
        "_now",
        "_pace",
        "_size",
        "_split",
        "_taken",
        "_took_in",
        "_watchdog",
        "collects",
        "fed",
    )

    def __init__(self, informer: Informer, watchdog: Watchdog, took_in: Callable[[], None], *, collects: bool) -> None:
        self._informer = informer
        self._watchdog = watchdog
        self._took_in = took_in
        self._split = LineSplitter().feed
        self._now = asyncio.get_running_loop().time
        self._asked = self._now()
        self._pace = Pace(self._asked)
        self._taken = 0
        self._count = 0
        self._size = 0
        self._dry = self._gathers = False
        self.collects = collects
        """Whether these are initial events: nobody waits for any but the last."""
        self.fed: Fed | None = None
        """Set when the initial events have ended; `go_on` takes in what came after them."""

    def take(self, chunk: bytes) -> bool:
        """Take a chunk in; true when `pause` is to be awaited, or what `fed` asks for to be done, before the next.

        Raises what `Informer.feed` raises.
        """
        watchdog = self._watchdog
        watchdog.last = now = self._now()
        self._dry = now - self._asked > DRY
        size = self._size = len(chunk)
        self._taken += size
        lines = self._split(chunk)
        if not lines:
            self._asked = self._now()
            return self._taken > YIELD_EVERY
        self._count = len(lines)
        self.fed = fed = self._informer.feed(lines)
        return fed is not None or self._done()

    def go_on(self, lines: Sequence[Line]) -> None:
        """Take in what came after the end of the initial events."""
        self.fed = self._informer.feed(lines)
        if self.fed is None:
            self._done()

    def _done(self) -> bool:
        self._took_in()
        pace = self._pace
        pace.took_in(self._count, self._watchdog.last)
        # kube-apiserver sends each object of the initial events by itself.
        few = self._count < MANY_AT_ONCE and self._size < MUCH_AT_ONCE
        gathers = (self._dry and pace.crowded) or (self.collects and few)
        self._gathers = gathers and not self._informer.writes.awaited
        self._asked = self._now()
        return self._gathers or self._taken > YIELD_EVERY

    async def pause(self) -> None:
        """Let events gather where that pays, or other tasks have their turn where there is much to read."""
        if self._gathers:
            self._gathers = False
            await asyncio.sleep(GATHER)
        elif self._taken > YIELD_EVERY:
            self._taken = 0
            await asyncio.sleep(0)
            self._watchdog.last = self._now()
        self._asked = self._now()
