"""The phases of a TopicTransfer as a pure function: the next phase, its reason, and the condition that it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from steersman import Condition, replace
from steersman.models import merge_conditions

from rocketmq.api.v1.topictransfer_types import Phase, TopicTransfer, TopicTransferStatus

__all__ = ["QUIET_SECONDS", "Drain", "Outcome", "advance", "is_drained", "is_finished", "phase_of"]

QUIET_SECONDS = 40
"""Time without a new message before a topic counts as drained.

Producers read routes every 30 seconds, and a broker accepts messages even if the topic is read-only.
"""
UNDO_UNTIL = ("", "Prepare", "CopyGroups", "CreateTopic")


@dataclass(frozen=True)
class Drain:
    """The state of a topic on the brokers where it will be deleted."""

    end: int
    """Sum of the end offsets of its queues."""
    lag: int
    """Messages that consumer groups have not read."""
    readers: int
    """The number of consumer groups that have read the topic."""


@dataclass(frozen=True)
class Outcome:
    """The result of the work of a phase."""

    problem: str = ""
    """Why the phase cannot be completed yet."""
    drain: Drain | None = None
    created: bool = False
    """Whether the transfer creates the topic on the target."""
    permission: int | None = None


def phase_of(transfer: TopicTransfer) -> Phase:
    """Return the phase to perform next."""
    phase = transfer.status.phase
    if transfer.spec.undo and phase in UNDO_UNTIL:
        return "Undo"
    return phase or "Prepare"


def is_finished(transfer: TopicTransfer) -> bool:
    """Return whether the transfer has no more work."""
    return transfer.status.phase == "Done"


def advance(transfer: TopicTransfer, phase: Phase, found: Outcome, now: datetime) -> TopicTransferStatus:
    """Return the status after the work of a phase; the phase does not change until its condition holds."""
    before = transfer.status
    status = replace(
        before,
        observed_generation=transfer.metadata.generation,
        phase=phase,
        created=before.created or found.created,
        permission=before.permission if before.permission is not None else found.permission,
    )
    waiting = found.problem
    if found.drain is not None:
        status, waiting = _drained(transfer, status, found.drain, now)
    if not waiting:
        status = replace(status, phase=_next(transfer, phase), end=None, unchanged_since=None)
    return _with_condition(transfer, status, phase, waiting, now)


def is_drained(transfer: TopicTransfer, phase: Phase, drain: Drain, now: datetime) -> bool:
    """Return whether the topic may be deleted on its former brokers."""
    return not _drained(transfer, replace(transfer.status, phase=phase), drain, now)[1]


def _next(transfer: TopicTransfer, phase: Phase) -> Phase:
    match phase:
        case "Prepare" | "":
            return "CopyGroups"
        case "CopyGroups":
            return "CreateTopic"
        case "CreateTopic":
            return "StopWrite"
        case "StopWrite":
            return "Drain"
        case "Drain":
            return "DeleteSource" if transfer.spec.delete_source else "Done"
        case "DeleteSource" | "Done" | "Undo":
            return "Done"


def _drained(
    transfer: TopicTransfer, status: TopicTransferStatus, drain: Drain, now: datetime
) -> tuple[TopicTransferStatus, str]:
    before = transfer.status
    same = before.phase == status.phase and before.end == drain.end and before.unchanged_since is not None
    since = before.unchanged_since if same else now
    status = replace(status, lag=drain.lag, end=drain.end, unchanged_since=since)
    if drain.lag:
        return status, f"consumers have not read {drain.lag} messages"
    deletes = status.phase == "Undo" or transfer.spec.delete_source
    if deletes and drain.end and not drain.readers:
        return status, f"no consumer group has read the topic, whose {drain.end} messages would be deleted"
    if since is None or now - since < timedelta(seconds=QUIET_SECONDS):
        return status, f"waiting until no message has come for {QUIET_SECONDS} seconds"
    return status, ""


def _with_condition(
    transfer: TopicTransfer, status: TopicTransferStatus, phase: Phase, waiting: str, now: datetime
) -> TopicTransferStatus:
    done = status.phase == "Done"
    reason = "Undone" if done and phase == "Undo" else "Moved" if done else phase or "Prepare"
    found = Condition(type="Complete", status="True" if done else "False", reason=reason, message=waiting)
    conditions = merge_conditions(transfer.status.conditions, (found,), now, transfer.metadata.generation)
    return replace(status, conditions=conditions)
