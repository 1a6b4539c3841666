"""Leader election as a pure state machine: the observed record, the next action, and the end of the lease.

Times in a lease record are never compared with a clock, because clocks of machines differ. A candidate measures the
expiry with its monotonic clock from its *read* of the changed record, and a leader measures its lease from the moment
*before* it sent the renewal. So the leader's time always ends first. Nothing here sleeps, logs or does I/O.

A process that holds the lock of its Pod (`pod_lock`) does not wait for leases of its predecessors in that Pod: they
have ended, and an ended process writes nothing.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

__all__ = ["Acquire", "Action", "Create", "Election", "LeaseRecord", "LeaseTiming", "Phase", "Renew", "Wait"]


class LeaseTiming(msgspec.Struct, frozen=True):
    """The duration of a lease, the deadline of renewals, and the interval of attempts; in seconds.

    The defaults are client-go's. Requests in flight have the time between `renew_deadline` and `duration` to end before
    another candidate may lead. Raises `ValueError` for times with which two replicas could lead, or none.
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


class LeaseRecord(msgspec.Struct, frozen=True):
    """The content of the Lease. `renewed` and `acquired` are opaque strings; they are never parsed as times."""

    holder: str = ""
    duration: float = 0.0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = ""
    """The resourceVersion for the next write, which fails if another candidate wrote first."""


class Phase(enum.Enum):
    """The state of a candidate. LOST is final: the process ends and restarts."""

    STANDBY = "standby"
    LEADING = "leading"
    LOST = "lost"
    RELEASED = "released"


class Wait(msgspec.Struct, frozen=True):
    """Do nothing before `until` (monotonic seconds), unless the record changes."""

    until: float


class Create(msgspec.Struct, frozen=True):
    """There is no Lease: create it."""


class Acquire(msgspec.Struct, frozen=True):
    """The lease is free or has expired: claim it if it still is `record`."""

    record: LeaseRecord


class Renew(msgspec.Struct, frozen=True):
    """This candidate holds the lease: renew it if it still is `record`."""

    record: LeaseRecord


Action: TypeAlias = Wait | Create | Acquire | Renew


class Election(msgspec.Struct, frozen=True):
    """The state of one candidate. Every method returns a new value; times are monotonic seconds."""

    identity: str
    timing: LeaseTiming = LeaseTiming()
    phase: Phase = Phase.STANDBY
    seen: LeaseRecord | None = None
    seen_at: float = 0.0
    held_from: float = 0.0
    why: str = ""
    """The reason of the loss."""
    ended_prefix: str = ""
    """The identity prefix of candidates that have ended; empty if none is known."""

    def saw(self, record: LeaseRecord | None, now: float) -> Election:
        """Apply a read of the Lease whose response arrived at `now`; `None` if there is no Lease."""
        if self.phase is Phase.LEADING:
            if record is None:
                return self.lost("the Lease was deleted")
            if record.holder != self.identity:
                return self.lost(f"{record.holder or 'no replica'} holds the lease now")
        if record is None:
            # A recent holder may still write: a deleted record allows no claim before its expiry.
            return self if self._alive(now) else msgspec.structs.replace(self, seen=None, seen_at=now)
        if record == self.seen:
            return self
        # Any new version counts as a renewal, even a changed label: a longer wait is safe, a shorter one is not.
        return msgspec.structs.replace(self, seen=record, seen_at=now)

    def next_action(self, now: float, *, exists: bool = True) -> Action:
        """Return the action at `now`; `exists` tells whether the last read found a Lease."""
        if self.phase is Phase.LEADING and self.seen is not None:
            return Renew(self.seen)
        if self._alive(now):
            return Wait(self.expires_at)
        if self.seen is None or not exists:
            return Create()
        return Acquire(self.seen)

    def wrote(self, record: LeaseRecord, sent_at: float) -> Election:
        """Apply an accepted write; the lease is measured from `sent_at`, before the request was sent."""
        return msgspec.structs.replace(self, phase=Phase.LEADING, seen=record, seen_at=sent_at, held_from=sent_at)

    def lost(self, why: str) -> Election:
        """Return the state of a candidate that has lost the lease."""
        return msgspec.structs.replace(self, phase=Phase.LOST, why=why)

    def released(self) -> Election:
        """Return the state of a candidate that has released the lease."""
        return msgspec.structs.replace(self, phase=Phase.RELEASED)

    @property
    def renew_by(self) -> float:
        """The time when a leader stops writing; no candidate may lead before `held_from + duration`."""
        return self.held_from + self.timing.renew_deadline

    @property
    def expires_at(self) -> float:
        """The expiry of the last read record, by this candidate's clock."""
        lasts = self.seen.duration if self.seen is not None else 0.0
        return self.seen_at + (lasts if lasts > 0 else self.timing.duration)

    def may_write(self, now: float) -> bool:
        """Whether a write may still be sent."""
        return self.phase is Phase.LEADING and now < self.renew_by

    def remaining(self, now: float) -> float:
        """Return the seconds in which a request that is sent at `now` must end; 0 without the lease."""
        return self.held_from + self.timing.duration - now if self.may_write(now) else 0.0

    def _alive(self, now: float) -> bool:
        if self.seen is None or self.seen.holder in ("", self.identity):
            return False
        return now < self.expires_at and not (self.ended_prefix and self.seen.holder.startswith(self.ended_prefix))
