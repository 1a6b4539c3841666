"""Checks the API server's audit log: the leader at each time, and writes of other replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from steersman.testing import AuditEvent

_NOT_STATE = {"authentication.k8s.io", "authorization.k8s.io"}
"""Reviews are created, but change nothing."""


@dataclass(frozen=True)
class Violation:
    """A write that a replica should not have made."""

    event: AuditEvent
    why: str

    def __str__(self) -> str:
        e = self.event
        what = f"{e.verb} {e.resource}/{e.subresource} {e.namespace}/{e.name}"
        return f"{e.received:%H:%M:%S.%f} {e.user} {what}: {self.why}"


def holder_of(event: AuditEvent) -> str | None:
    """The holder that a successful write of the lease left behind; None for everything else."""
    if event.resource != "leases" or not event.is_write or event.code not in (200, 201):
        return None
    return ((event.raw.get("responseObject") or {}).get("spec") or {}).get("holderIdentity") or ""


def writes_outside_leadership(
    events: Iterable[AuditEvent], *, replicas: Iterable[str], lease_duration: timedelta
) -> list[Violation]:
    """Every write of a replica (by user name) that was received while it did not hold an unexpired lease.

    `events` holds all stages. A write counts from when it was received, a lease from when the API server answered
    it, so that a request under way during a change of leaders counts against its sender.
    """
    users = set(replicas)
    moments: list[tuple[datetime, int, AuditEvent]] = []
    checked: set[str] = set()
    for event in events:
        if event.user not in users or not event.is_write or event.group in _NOT_STATE:
            continue
        if event.resource == "leases":
            if event.stage == "ResponseComplete" and holder_of(event) is not None:
                moments.append((event.at, 0, event))
        elif event.audit_id not in checked:
            checked.add(event.audit_id)
            moments.append((event.received, 1, event))
    moments.sort(key=lambda moment: moment[:2])

    leader, valid_until = "", datetime.min.replace(tzinfo=moments[0][0].tzinfo) if moments else None
    violations: list[Violation] = []
    for at, is_write, event in moments:
        if not is_write:
            leader = event.user if holder_of(event) else ""
            valid_until = event.received + lease_duration
        elif event.user != leader:
            violations.append(Violation(event, f"the lease is held by {leader or 'nobody'}"))
        elif valid_until is not None and at > valid_until:
            violations.append(Violation(event, f"its lease expired at {valid_until:%H:%M:%S.%f}"))
    return violations
