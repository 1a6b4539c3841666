"""The rotation of passwords: the next step, as a pure function.

The primary gets the new passwords first; its accounts accept the former ones too. Then one replica at a time connects
to the primary again. The former passwords end after an overlap, in which clients read the Secret again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from steersman import replace

from mysqlcluster.actions import Action, CreateAccounts, Reconnect
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import PasswordStatus
from mysqlcluster.machine import ClusterState
from mysqlcluster.observation import Observation, Role

__all__ = ["OVERLAP", "RETIRE", "ROTATE", "RotationStep", "next_step"]

ROTATE = "database.example.com/rotate-passwords"
"""Annotation of a cluster: a new value requests new passwords in the Secret that the operator has generated."""
RETIRE = "database.example.com/retire-passwords"
"""Annotation of a cluster: the revision in `status.passwords` ends the validity of the former passwords at once."""
OVERLAP = timedelta(hours=24)
"""Time for which the former passwords remain valid."""


class RotationStep(NamedTuple):
    """The status after the step, and the action to perform before it is stored."""

    status: PasswordStatus
    action: Action | None = None
    completed: bool = False
    """All members use new passwords now."""


def next_step(
    status: PasswordStatus, revision: str, state: ClusterState, seen: Observation, now: datetime, retire: str = ""
) -> RotationStep:
    """Return the next step towards the passwords of the Secret.

    Args:
        status: The stored status.
        revision: The revision of the Secret.
        state: The stored state of the cluster.
        seen: The members.
        now: The time.
        retire: The revision whose former passwords end at once.
    """
    primary = seen.get(state.primary)
    if state.transition is not None or primary.role is not Role.PRIMARY:
        return RotationStep(status)
    if primary.accounts_revision != revision:
        # A new cluster has no clients, and a restored one has the passwords of another cluster.
        first = not status.revision
        action = CreateAccounts(member=primary.name, epoch=state.epoch, revision=revision, retire_old=first)
        return RotationStep(status, action)
    replicas = [each for each in seen.select(state.quorum.members) if each.name != primary.name]
    former = [each for each in replicas if each.replication_revision != revision]
    if former:
        ready = next((each for each in former if each.follows(primary.name, state.epoch)), None)
        if ready is None or not all(each.follows(primary.name, state.epoch) for each in replicas):
            return RotationStep(status)
        return RotationStep(status, Reconnect(member=ready.name, epoch=state.epoch, revision=revision))
    if status.revision != revision:
        text = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        used = PasswordStatus(revision=revision, changed_at=text, former_valid=bool(status.revision))
        return RotationStep(used, completed=used.former_valid)
    if not status.former_valid:
        return RotationStep(status)
    if retire == revision or now - datetime.fromisoformat(status.changed_at) >= OVERLAP:
        action = CreateAccounts(member=primary.name, epoch=state.epoch, revision=revision, retire_old=True)
        return RotationStep(replace(status, former_valid=False), action)
    return RotationStep(status)
