"""What to do next about the webhooks' certificates: a pure function of what the Secret holds, what was seen, and now.

An API server trusts what stands in its `caBundle`, and a replica shows what it last read from the Secret. Neither
learns of a change at once, so a certificate is shown only after every configuration has carried its authority for a
settling time, and an authority leaves the bundle only after nothing that it signed can be shown any more. Settling
times are durations that one process has watched itself, never differences of wall clocks. Nothing here makes keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

__all__ = [
    "Action",
    "Create",
    "Held",
    "Issuer",
    "Publish",
    "Renew",
    "Resign",
    "Restore",
    "Retire",
    "Retired",
    "Seen",
    "Shown",
    "Terms",
    "Wait",
    "decide",
]

_MOST_AUTHORITIES = 8
"""A bundle grows no longer, however often somebody asks for a new authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long things live. Raises ValueError for terms that contradict each other."""

    authority_life: timedelta = timedelta(days=730)
    serving_life: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(minutes=2)
    """How long every API server and every replica may take to learn of a change."""
    skew: timedelta = timedelta(minutes=5)
    """By how much clocks may differ when the end of a certificate's life is judged."""

    def __post_init__(self) -> None:
        if self.settle <= timedelta(0) or self.skew < timedelta(0):
            raise ValueError("settling takes time, and clocks never differ by less than nothing")
        if self.serving_life < 6 * self.settle:
            raise ValueError(f"certificates that live for {self.serving_life} need a settling time of at most a sixth")
        if self.authority_life < 3 * self.serving_life:
            raise ValueError("an authority lives at least three times as long as what it signs")


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authority, by its certificate's fingerprint."""

    id: str
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Retired:
    """An authority that signs no more, and until when something that it signed may be shown."""

    id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Shown:
    """The certificate that replicas show."""

    issuer: str
    not_after: datetime
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Held:
    """What the Secret holds; the bundle is everything that `trusted` names."""

    authority: Issuer
    shown: Shown
    successor: Issuer | None = None
    retired: tuple[Retired, ...] = ()

    @property
    def trusted(self) -> frozenset[str]:
        """The authorities in the bundle."""
        ids = {self.authority.id, *(r.id for r in self.retired)}
        return frozenset(ids | {self.successor.id} if self.successor else ids)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one process has seen, by its own monotonic clock; `now` is the wall clock."""

    now: datetime
    carried_for: timedelta | None = None
    """For how long every configuration has been seen to carry the whole bundle; `None` when one does not."""
    held_for: timedelta = timedelta(0)
    """For how long the Secret has been seen to hold the certificate that it holds."""
    requested: bool = False
    """Whether somebody asks for a new authority."""
    remembered: bool = False
    """Whether this process knows what the Secret held before it was deleted or damaged."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make an authority and a certificate: there is nothing yet."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Write down again what this process remembers: configurations and replicas still live by it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Sign a new certificate with the present authority."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Make the next authority and add it to the bundle; it signs nothing yet."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The next authority becomes the present one and signs; the old one stays in the bundle until `until`."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Retire:
    """Take these authorities out of the bundle."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do yet; look again at `until` at the latest, by the wall clock."""

    until: datetime


Action: TypeAlias = Create | Restore | Renew | Publish | Resign | Retire | Wait


def decide(held: Held | None, seen: Seen, hosts: frozenset[str], terms: Terms) -> Action:
    """The one next step. Every step leaves a state that is right even if nobody ever takes the next one."""
    if held is None:
        return Restore() if seen.remembered else Create()
    if _renewal_due(held, seen.now, hosts, terms):
        return Renew()
    if held.successor is not None:
        if seen.carried_for is not None and seen.carried_for >= terms.settle:
            # A clock that ran ahead may have signed something that outlives what is shown now.
            until = max(held.shown.not_after, seen.now + terms.serving_life)
            return Resign(min(until, held.authority.not_after) + terms.skew)
    elif (seen.requested or _successor_due(held, seen.now, terms)) and len(held.trusted) < _MOST_AUTHORITIES:
        return Publish()
    if seen.held_for >= terms.settle:
        gone = frozenset(r.id for r in held.retired if seen.now >= r.until)
        if gone:
            return Retire(gone)
    return Wait(_next(held, seen.now, terms))


def _renewal_due(held: Held, now: datetime, hosts: frozenset[str], terms: Terms) -> bool:
    """At two thirds of its life, or when it is for other hosts; but not where a new one would end no later."""
    if held.shown.hosts != hosts or held.shown.issuer != held.authority.id:
        return True
    if held.shown.not_after - now > terms.serving_life / 3:
        return False
    return min(now + terms.serving_life, held.authority.not_after) > held.shown.not_after + terms.serving_life / 6


def _successor_due(held: Held, now: datetime, terms: Terms) -> bool:
    """At two thirds of its life, when it can still sign certificates that live as long as they should."""
    return held.authority.not_after - now <= terms.authority_life / 3


def _next(held: Held, now: datetime, terms: Terms) -> datetime:
    times = [held.shown.not_after - terms.serving_life / 3, held.authority.not_after - terms.authority_life / 3]
    times += [r.until for r in held.retired]
    if held.successor is not None:
        times.append(now + terms.settle)
    return min((t for t in times if t > now), default=now + terms.settle)
