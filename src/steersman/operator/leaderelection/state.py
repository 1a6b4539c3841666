"""Leader election as a pure state machine: what a candidate has seen, what it may do next, until when it leads.

A lease record's own times are never compared with a clock: two machines' clocks differ. A candidate judges expiry by
its monotonic clock from the moment *it* saw the record change, and a leader counts its lease from the moment
*before* it sent the renewal. So the leader's reckoning always ends first. Nothing here sleeps, logs or talks to a
server.

A process that holds the lock of its Pod (`podlock`) waits for no lease of its predecessors in that Pod: they have
ended, and an ended process writes nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TypeAlias

__all__ = ["Acquire", "Action", "Create", "Election", "LeaseRecord", "LeaseTiming", "Phase", "Renew", "Wait"]


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """How long a lease lasts, when its holder gives up renewing, and how often anybody tries; in seconds.

    The defaults are client-go's. Between `renew_deadline` and `duration` lies the time that requests in flight have
    to end before another candidate may lead. Raises `ValueError` for timing under which two could lead, or nobody.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.duration < 1 or self.duration != int(self.duration):
            raise ValueError(f"lease duration {self.duration:g} s: must be whole seconds, at least 1")
        if self.renew_deadline >= self.duration:
            raise ValueError(
                f"renew deadline {self.renew_deadline:g} s: must be shorter than the lease duration"
                f" ({self.duration:g} s)"
            )
        if self.retry_period <= 0 or self.renew_deadline < self.retry_period * 1.2:
            raise ValueError(
                f"retry period {self.retry_period:g} s: must be positive, and 1.2 of it must fit into the renew"
                f" deadline ({self.renew_deadline:g} s)"
            )


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the Lease says. `renewed` and `acquired` are opaque words that change; they are never read as times."""

    holder: str = ""
    duration: float = 0.0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = ""
    """The resourceVersion that a write must name, so that it fails when anybody else wrote first."""


class Phase(enum.Enum):
    """Where a candidate stands. There is no way back from LOST: the process ends and starts anew."""

    STANDBY = "standby"
    LEADING = "leading"
    LOST = "lost"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until` (monotonic seconds), unless the record changes."""

    until: float


@dataclass(frozen=True, slots=True)
class Create:
    """There is no Lease: create it."""


@dataclass(frozen=True, slots=True)
class Acquire:
    """The lease is free or has expired: claim it, provided that it still is `record`."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Renew:
    """The lease is ours: renew it, provided that it still is `record`."""

    record: LeaseRecord


Action: TypeAlias = Wait | Create | Acquire | Renew


@dataclass(frozen=True, slots=True)
class Election:
    """One candidate's knowledge. Every method returns a new value; times are monotonic seconds."""

    identity: str
    timing: LeaseTiming = LeaseTiming()
    phase: Phase = Phase.STANDBY
    seen: LeaseRecord | None = None
    seen_at: float = 0.0
    held_from: float = 0.0
    why: str = ""
    """Why the lease was lost."""
    ended_prefix: str = ""
    """Candidates whose identity begins with this prefix have ended; empty: no candidate is known to have ended."""

    def saw(self, record: LeaseRecord | None, now: float) -> Election:
        """The Lease was read and its answer arrived at `now`; `None` when there is none."""
        if self.phase is Phase.LEADING:
            if record is None:
                return self.lost("the Lease was deleted")
            if record.holder != self.identity:
                return self.lost(f"{record.holder or 'nobody'} holds the lease now")
        if record is None:
            # A holder that was alive a moment ago may still write: a vanished record frees nothing before it expires.
            return self if self._alive(now) else replace(self, seen=None, seen_at=now)
        if record == self.seen:
            return self
        # Any new version counts as a renewal, were it only a changed label: patience costs seconds, haste costs safety.
        return replace(self, seen=record, seen_at=now)

    def next_action(self, now: float, *, exists: bool = True) -> Action:
        """What to do at `now`; `exists` tells whether the last read found a Lease."""
        if self.phase is Phase.LEADING and self.seen is not None:
            return Renew(self.seen)
        if self._alive(now):
            return Wait(self.expires_at)
        if self.seen is None or not exists:
            return Create()
        return Acquire(self.seen)

    def wrote(self, record: LeaseRecord, sent_at: float) -> Election:
        """Our write was accepted; `sent_at` is the time before it was sent, from which the lease is counted."""
        return replace(self, phase=Phase.LEADING, seen=record, seen_at=sent_at, held_from=sent_at)

    def lost(self, why: str) -> Election:
        """Return the state of a candidate that has lost the lease."""
        return replace(self, phase=Phase.LOST, why=why)

    def released(self) -> Election:
        """Return the state of a candidate that has released the lease."""
        return replace(self, phase=Phase.RELEASED)

    @property
    def renew_by(self) -> float:
        """When a leader stops writing, though nobody may follow before `held_from + duration`."""
        return self.held_from + self.timing.renew_deadline

    @property
    def expires_at(self) -> float:
        """When the record that was seen last expires, by this candidate's clock."""
        lasts = self.seen.duration if self.seen is not None else 0.0
        return self.seen_at + (lasts if lasts > 0 else self.timing.duration)

    def may_write(self, now: float) -> bool:
        """Whether a write may still be sent."""
        return self.phase is Phase.LEADING and now < self.renew_by

    def remaining(self, now: float) -> float:
        """Seconds in which a request that is sent at `now` must have ended; 0 for who may not write."""
        return self.held_from + self.timing.duration - now if self.may_write(now) else 0.0

    def _alive(self, now: float) -> bool:
        if self.seen is None or self.seen.holder in ("", self.identity):
            return False
        return now < self.expires_at and not (self.ended_prefix and self.seen.holder.startswith(self.ended_prefix))
