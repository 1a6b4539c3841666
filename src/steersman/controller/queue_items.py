"""The items of the work queue, and `Job`, the item that a worker receives.

They are separate from `queue_state`, which is compiled: mypyc does not support the class options of msgspec.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from math import inf
from typing import Final, Generic, TypeVar

import msgspec

__all__ = [
    "DEFAULT_PRIORITY",
    "DIRTY",
    "IDLE",
    "LOW_PRIORITY",
    "RUNNING",
    "WAITING",
    "Debounce",
    "Item",
    "Job",
    "Phase",
    "Schedule",
]

K = TypeVar("K", bound=Hashable)

DEFAULT_PRIORITY: Final = 0
"""The priority of new events."""
LOW_PRIORITY: Final = -100
"""The priority of the initial list and of resyncs, as in controller-runtime."""


class Debounce(msgspec.Struct, frozen=True):
    """Delays a key until it has no event for `quiet` seconds, at most `max_wait` seconds in total."""

    quiet: float
    max_wait: float

    def __post_init__(self) -> None:
        if not 0 < self.quiet <= self.max_wait:
            raise ValueError(f"{self!r}: use 0 < quiet <= max_wait")


class Job(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A key for a worker, the reasons of its events, and the attempt number (from 1)."""

    key: K
    reasons: tuple[str, ...] = ()
    attempt: int = 1
    priority: int = DEFAULT_PRIORITY


class Phase(enum.IntEnum):
    """The phase of a key."""

    IDLE = 0  # waits for a time only
    WAITING = 1  # ready, in the queue of its priority
    RUNNING = 2  # with a worker
    DIRTY = 3  # with a worker, and an event arrived since


# Module variables, because an attribute of an enum costs two lookups and these are read several times per key.
IDLE, WAITING, RUNNING, DIRTY = Phase


class Schedule:
    """The times for which a key waits; most keys never have one."""

    __slots__ = (
        "add_at",
        "debounce_at",
        "debounce_by",
        "due",
        "failures",
        "requeue_at",
        "retried_early",
        "retry_at",
        "window_end",
    )

    def __init__(self) -> None:
        self.due = inf  # the key's earliest entry in the heap
        self.failures = 0
        self.retry_at = inf  # the end of the backoff
        self.window_end = 0.0  # the end of the current backoff window
        self.retried_early = False  # an event has started a run within the current window
        self.requeue_at = inf  # requeue-after
        self.add_at = inf  # add_after
        self.debounce_at = inf  # debounce: the end without another event
        self.debounce_by = inf  # debounce: the latest end

    def next_due(self) -> float:
        """Return the earliest of these times."""
        return min(self.retry_at, self.requeue_at, self.add_at, self.debounce_at)


class Item(msgspec.Struct, Generic[K], eq=False, gc=False):
    """The state of one key in the queue."""

    key: K
    priority: int
    reasons: tuple[str, ...]
    since: float
    phase: Phase = IDLE
    schedule: Schedule | None = None
