"""The next step of the certificate rotation, as a pure function of the Secret's state, the observations and the time.

An API server trusts the authorities in `caBundle`, and a replica uses the certificate that it last read from the
Secret. Neither sees a change at once. So a certificate is used only after every configuration has had its authority for
the propagation time, and an authority is removed from the bundle only when no certificate that it signed can be in use.
Propagation times are measured by one process, and are never differences of wall clocks. No keys are created here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

__all__ = [
    "Action",
    "CertificateLifetimes",
    "CertificateState",
    "Create",
    "Issuer",
    "Observation",
    "Publish",
    "Renew",
    "Resign",
    "Restore",
    "Retire",
    "Retired",
    "ServingCertificate",
    "Wait",
    "decide",
]

_MAX_AUTHORITIES = 8
"""The largest number of authorities in a bundle, however often a rotation is requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateLifetimes:
    """Lifetimes of certificates. Raises ValueError if they contradict each other."""

    authority_lifetime: timedelta = timedelta(days=730)
    serving_lifetime: timedelta = timedelta(days=90)
    propagation: timedelta = timedelta(minutes=2)
    """The time within which every API server and every replica uses a change."""
    skew: timedelta = timedelta(minutes=5)
    """The largest difference of clocks that is assumed at the expiry of a certificate."""

    def __post_init__(self) -> None:
        if self.propagation <= timedelta(0) or self.skew < timedelta(0):
            raise ValueError("the propagation time must be positive, and the clock skew must not be negative")
        if self.serving_lifetime < 6 * self.propagation:
            raise ValueError(
                f"the propagation time {self.propagation} is more than a sixth of the serving lifetime"
                f" {self.serving_lifetime}"
            )
        if self.authority_lifetime < 3 * self.serving_lifetime:
            raise ValueError("the lifetime of an authority must be at least three times the serving lifetime")


@dataclass(frozen=True, slots=True)
class Issuer:
    """A certificate authority, identified by its certificate's fingerprint."""

    id: str
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Retired:
    """An authority that signs no more; certificates that it signed may be in use until `until`."""

    id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The serving certificate."""

    issuer: str
    not_after: datetime
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True)
class CertificateState:
    """The state of the Secret without keys; the bundle has all authorities of `trusted`."""

    authority: Issuer
    serving: ServingCertificate
    successor: Issuer | None = None
    retired: tuple[Retired, ...] = ()

    @property
    def trusted(self) -> frozenset[str]:
        """The authorities in the bundle."""
        ids = {self.authority.id, *(r.id for r in self.retired)}
        return frozenset(ids | {self.successor.id} if self.successor else ids)


@dataclass(frozen=True, slots=True)
class Observation:
    """Observations of one process, measured by its monotonic clock; `now` is the wall clock."""

    now: datetime
    injected_for: timedelta | None = None
    """The time for which every configuration has had the whole bundle; `None` if one has not."""
    stored_for: timedelta = timedelta(0)
    """The time for which the Secret has had its current authority."""
    requested: bool = False
    """Whether a new authority was requested."""
    content_known: bool = False
    """Whether this process knows the Secret's content before it was deleted or damaged."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an authority and a serving certificate: the Secret is empty."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Write the known content again: configurations and replicas still use it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Sign a new serving certificate with the current authority."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Create the next authority and add it to the bundle; it signs nothing yet."""


@dataclass(frozen=True, slots=True)
class Resign:
    """Make the next authority the current one and sign with it; the old one stays in the bundle until `until`."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Retire:
    """Remove authorities from the bundle."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing; decide again at `until` (wall clock) at the latest."""

    until: datetime


Action: TypeAlias = Create | Restore | Renew | Publish | Resign | Retire | Wait


def decide(
    state: CertificateState | None, observation: Observation, hosts: frozenset[str], lifetimes: CertificateLifetimes
) -> Action:
    """Return the next step. After every step the state is valid, even if no further step is taken."""
    if state is None:
        return Restore() if observation.content_known else Create()
    if _renewal_due(state, observation.now, hosts, lifetimes):
        return Renew()
    if state.successor is not None:
        if observation.injected_for is not None and observation.injected_for >= lifetimes.propagation:
            # A replica with a fast clock may have signed a certificate that expires after the current one.
            until = max(state.serving.not_after, observation.now + lifetimes.serving_lifetime)
            return Resign(min(until, state.authority.not_after) + lifetimes.skew)
    elif len(state.trusted) < _MAX_AUTHORITIES and (
        observation.requested or _successor_due(state, observation.now, lifetimes)
    ):
        return Publish()
    if observation.stored_for >= lifetimes.propagation:
        gone = frozenset(r.id for r in state.retired if observation.now >= r.until)
        if gone:
            return Retire(gone)
    return Wait(_next(state, observation.now, lifetimes))


def _renewal_due(
    state: CertificateState, now: datetime, hosts: frozenset[str], lifetimes: CertificateLifetimes
) -> bool:
    """Return whether a renewal is due: at two thirds of the lifetime, or for other hosts, if it extends the expiry."""
    if state.serving.hosts != hosts or state.serving.issuer != state.authority.id:
        return True
    if state.serving.not_after - now > lifetimes.serving_lifetime / 3:
        return False
    return (
        min(now + lifetimes.serving_lifetime, state.authority.not_after)
        > state.serving.not_after + lifetimes.serving_lifetime / 6
    )


def _successor_due(state: CertificateState, now: datetime, lifetimes: CertificateLifetimes) -> bool:
    """Return whether two thirds of the authority's lifetime have passed."""
    return state.authority.not_after - now <= lifetimes.authority_lifetime / 3


def _next(state: CertificateState, now: datetime, lifetimes: CertificateLifetimes) -> datetime:
    times = [
        state.serving.not_after - lifetimes.serving_lifetime / 3,
        state.authority.not_after - lifetimes.authority_lifetime / 3,
    ]
    times += [r.until for r in state.retired]
    if state.successor is not None:
        times.append(now + lifetimes.propagation)
    return min((t for t in times if t > now), default=now + lifetimes.propagation)
