"""What goes through the work queue: keys with what is known of them, and jobs, which is what workers get.

Apart from the queue's rules, because those are compiled, and a compiler for Python knows nothing of the options that
msgspec's classes take.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from math import inf
from typing import Final, Generic, TypeVar

import msgspec

__all__ = ["DIRTY", "FRESH", "IDLE", "LOW_PRIORITY", "RUNNING", "WAITING", "Debounce", "Item", "Job", "Later", "Phase"]

K = TypeVar("K", bound=Hashable)

FRESH: Final = 0
"""Priority of events that just happened."""
LOW_PRIORITY: Final = -100
"""Priority of the initial list and of resyncs; controller-runtime's number."""


class Debounce(msgspec.Struct, frozen=True):
    """Wait until a key has been quiet for `quiet` seconds, but never longer than `max_wait` in all."""

    quiet: float
    max_wait: float

    def __post_init__(self) -> None:
        if not 0 < self.quiet <= self.max_wait:
            raise ValueError(f"{self!r}: needs 0 < quiet <= max_wait")


class Job(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A key handed to a worker, with the reasons that led to it and which attempt in a row this is (from 1)."""

    key: K
    reasons: tuple[str, ...] = ()
    attempt: int = 1
    priority: int = FRESH


class Phase(enum.IntEnum):
    """Where a key is."""

    IDLE = 0  # only a timer knows the key
    WAITING = 1  # in a level, ready to be taken
    RUNNING = 2  # with a worker
    DIRTY = 3  # with a worker, and something happened since


# Plain names: an enum attribute costs two look-ups, and these are read several times per key.
IDLE, WAITING, RUNNING, DIRTY = Phase


class Later:
    """What a key is waiting for besides a worker. Most keys never have one."""

    __slots__ = ("due", "early", "failures", "later", "promised", "retry_at", "settle_at", "settle_by", "window")

    def __init__(self) -> None:
        self.due = inf  # when the heap looks at this key next
        self.failures = 0
        self.retry_at = inf  # when the backoff lets the key run again
        self.window = 0.0  # end of the present backoff window
        self.early = False  # an event has already cut the present window short
        self.promised = inf  # requeue-after
        self.later = inf  # add_after
        self.settle_at = inf  # debounce: quiet until then
        self.settle_by = inf  # debounce: at the latest

    def next_due(self) -> float:
        """When the first of it is due."""
        return min(self.retry_at, self.promised, self.later, self.settle_at)


class Item(msgspec.Struct, Generic[K], eq=False, gc=False):
    """What the queue knows of one key."""

    key: K
    priority: int
    reasons: tuple[str, ...]
    since: float
    phase: Phase = IDLE
    late: Later | None = None
