"""Runs the state machine of the election for this process, and checks every write against the remaining lease.

Only one replica may write. Requests for leases, probes, metrics and webhooks use a client without this check. A
process that lost its lease does not try again: the assumptions of its reconciles are no longer true, so it ends with
a failure and restarts.

Caveat: the API server has no fencing tokens. If the kernel stops a process between the check and the write to the
socket for longer than `duration - renew_deadline`, it could still send that one request. If a person deletes the Lease
while a new replica starts, both lead until the old one's next renewal.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, Protocol

from steersman.client.errors import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from steersman.operator.leaderelection.pod_lock import new_identity
from steersman.operator.leaderelection.state import (
    Acquire,
    Create,
    Election,
    LeaseRecord,
    LeaseTiming,
    Phase,
    Renew,
    Wait,
)
from steersman.operator.metrics import LEADER
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["LeaderElector", "LeadershipLostError", "LeaseApi", "LeaseGate", "NotLeaderError", "monotonic"]

log = get_logger("leader")

_JITTER = 1.2
"""Candidates try every `retry_period` times 1 to 1 + this, so that they do not all try at once (client-go's factor)."""


class NotLeaderError(ClientError):
    """A write was not sent, because this replica does not hold the lease, or not for long enough (L2)."""


class LeadershipLostError(Exception):
    """This replica has lost the lease and must stop."""


class LeaseApi(Protocol):
    """The three requests of an election. A write fails with `Conflict` if the record has changed."""

    async def read(self) -> LeaseRecord | None:
        """Return the record; `None` if there is no Lease."""
        ...

    async def create(self, record: LeaseRecord) -> LeaseRecord:
        """Create the Lease; fails with `AlreadyExists` if there is one."""
        ...

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Write the record; fails with `Conflict` if it has changed."""
        ...


def monotonic() -> float:
    """Return seconds of a clock that also runs in a suspended machine, so that a lease expires there."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaseGate:
    """Checks every write and refuses it without enough remaining lease (L2).

    `check` reads the clock at the time of the write: after a minute with a blocked loop it refuses writes even before
    the replica reads that another one leads.
    """

    __slots__ = ("_elector",)

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def check(self, verb: str, path: str) -> None:
        """Raise `NotLeaderError` unless this replica leads for longer than a request may take."""
        if not self._elector.may_write():
            raise NotLeaderError(f"{verb} {path} was not sent: {self._elector.explain()}")

    def remaining(self) -> float:
        """Return the seconds in which a request that is sent now must end; request timeouts are limited to it."""
        return self._elector.remaining()


@dataclass(slots=True)
class LeaderElector:
    """Acquires, holds and releases one lease.

    `await acquire()` returns when this replica leads; `await hold()` never returns and raises `LeadershipLostError`;
    `await release()` lets the next candidate lead at once, and belongs after the end of all writes (L3).
    """

    api: LeaseApi
    name: str
    identity: str = field(default_factory=new_identity)
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    now: Now = utc_now
    rng: random.Random = field(default_factory=random.Random)
    clock: Callable[[], float] | None = None
    """Monotonic seconds; the loop's own by default, `monotonic` in a process that may be suspended."""
    ended_prefix: str = ""
    """The prefix of identities of ended processes of this Pod; only for the holder of the Pod's lock (L1)."""
    state: Election = field(init=False)
    gate: LeaseGate = field(init=False)

    def __post_init__(self) -> None:
        self.state = Election(self.identity, self.timing, ended_prefix=self.ended_prefix)
        self.gate = LeaseGate(self)
        LEADER.labels(self.name).set(0)

    @property
    def leading(self) -> bool:
        """Whether this replica leads."""
        return self.state.phase is Phase.LEADING

    @property
    def holder(self) -> str:
        """The holder of the lease at the last read, `""` for none."""
        return self.state.seen.holder if self.state.seen is not None else ""

    def may_write(self) -> bool:
        """Return whether a write may be sent now."""
        return self.state.may_write(self._time())

    def remaining(self) -> float:
        """Return the seconds within which a request that is sent now must have ended."""
        return self.state.remaining(self._time())

    def explain(self) -> str:
        """Return why this replica may not write, for an error message."""
        state = self.state
        if state.phase is Phase.LEADING:
            overdue = self._time() - state.renew_by
            return f"the lease {self.name} could not be renewed in time ({overdue:.1f} s past the renew deadline)"
        if state.phase is Phase.STANDBY:
            return f"this replica is a standby; {self.holder or 'no replica'} holds the lease {self.name}"
        return f"the lease {self.name} was {state.phase.value}" + (f": {state.why}" if state.why else "")

    async def acquire(self) -> None:
        """Wait until this replica leads. Retries after failures; API errors are logged when they change."""
        log.info("lease_sought", lease=self.name, identity=self.identity)
        said = ""
        while not self.leading:
            pause = self.timing.retry_period * (1 + _JITTER * self.rng.random())
            holder = self.holder
            try:
                async with asyncio.timeout(self.timing.renew_deadline / 2):
                    pause = min(pause, await self._try())
                said = ""
            except (Conflict, AlreadyExists):
                log.debug("lease_taken_by_another", lease=self.name)
            except (ClientError, TimeoutError) as problem:
                if (what := _describe(problem)) != said:
                    log.warning("lease_unavailable", lease=self.name, error=what)
                    said = what
            if self.holder != holder and not self.leading:
                log.info(
                    "another_replica_leads",
                    lease=self.name,
                    holder=self.holder or "nobody",
                    hint="if the holder is another operator, give one of the two another name or lease",
                )
            if not self.leading:
                await asyncio.sleep(pause)
        LEADER.labels(self.name).set(1)
        log.info("leader_elected", lease=self.name, identity=self.identity)

    async def hold(self) -> NoReturn:
        """Renew until that fails for `renew_deadline` seconds or another replica leads: `LeadershipLostError`."""
        try:
            while True:
                await asyncio.sleep(self.timing.retry_period)
                await self._renew()
        except LeadershipLostError as lost:
            self.state = self.state.lost(str(lost))
            LEADER.labels(self.name).set(0)
            log.error("lease_lost", lease=self.name, reason=str(lost))
            raise

    async def release(self) -> bool:
        """Release the lease if this replica holds it; never raises. Writes are refused before the request is sent."""
        if not self.leading or self.state.seen is None:
            return False
        record = self.state.seen
        self.state = self.state.released()
        LEADER.labels(self.name).set(0)
        try:
            async with asyncio.timeout(self.timing.renew_deadline / 2):
                await self._give_back(record)
        except (ClientError, TimeoutError) as problem:
            log.warning("lease_release_failed", lease=self.name, error=_describe(problem))
            return False
        log.info("lease_released", lease=self.name)
        return True

    async def _give_back(self, record: LeaseRecord) -> None:
        try:
            await self.api.write(self._claim(record, holder=""))
        except Conflict:  # An interrupted renewal may have been applied; one read decides.
            current = await self.api.read()
            if current is not None and current.holder == self.identity:
                await self.api.write(self._claim(current, holder=""))

    async def _try(self) -> float:
        """Make one attempt of a standby; returns the longest useful delay before the next one."""
        record = await self.api.read()
        self.state = self.state.saw(record, self._time())
        sent_at = self._time()
        match self.state.next_action(sent_at, exists=record is not None):
            case Create():
                written = await self.api.create(self._claim(None, holder=self.identity))
            case Acquire(known) | Renew(known):
                written = await self.api.write(self._claim(known, holder=self.identity))
            case Wait(until):
                # Soon after the expiry, spread over a tenth of the retry period, for a short time without a leader.
                return until - sent_at + self.timing.retry_period * 0.1 * self.rng.random()
        self.state = self.state.wrote(written, sent_at)
        return 0.0

    async def _renew(self) -> None:
        known = self.state.seen
        assert known is not None
        sent_at = self._time()
        # After a blocked loop make one last attempt even past the deadline, without allowing writes: it succeeds only
        # if no other candidate has written the Lease.
        limit = max(min(self.state.renew_by - sent_at, self.timing.renew_deadline / 2), self.timing.retry_period / 2)
        try:
            async with asyncio.timeout(limit):
                written = await self._renew_once(known)
        except (ClientError, TimeoutError) as problem:
            if self._time() >= self.state.renew_by:
                raise LeadershipLostError(
                    f"not renewed within {self.timing.renew_deadline:g} s; last answer: {_describe(problem)}"
                ) from problem
            log.warning("lease_renewal_failed", lease=self.name, error=_describe(problem))
            return
        self.state = self.state.wrote(written, sent_at)

    async def _renew_once(self, known: LeaseRecord) -> LeaseRecord:
        try:
            return await self.api.write(self._claim(known, holder=self.identity))
        except (Conflict, NotFound):
            current = await self.api.read()
            self.state = self.state.saw(current, self._time())
            if self.state.phase is Phase.LOST or current is None:
                raise LeadershipLostError(self.state.why) from None
            return await self.api.write(self._claim(current, holder=self.identity))

    def _claim(self, known: LeaseRecord | None, *, holder: str) -> LeaseRecord:
        stamp = _micro_time(self.now())
        before = known or LeaseRecord()
        changes_hands = before.holder != holder
        return LeaseRecord(
            holder=holder,
            duration=self.timing.duration if holder else 1.0,
            acquired=stamp if changes_hands or not before.acquired else before.acquired,
            renewed=stamp,
            transitions=before.transitions + (1 if changes_hands and holder and known is not None else 0),
            version=before.version,
        )

    def _time(self) -> float:
        return self.clock() if self.clock is not None else asyncio.get_running_loop().time()


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _describe(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError) and not isinstance(problem, ApiError):
        return "no answer in time"
    return str(problem) or type(problem).__name__
