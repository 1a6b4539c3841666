"""The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure.

Pure functions of the Deployment, its ReplicaSets and the time. Reasons and messages are those that tools and people
know from Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from steersman.k8s import Deployment, ReplicaSet
from steersman.k8s.apps_v1 import DeploymentCondition, DeploymentStatus
from steersman.models import replace
from steersman_cluster.controllers.workloads.rollout import replicas_of, rollout_limits, total

__all__ = ["deployment_status", "is_complete", "seconds_to_deadline", "with_condition"]

_NO_DEADLINE = 2**31 - 1


def deployment_status(
    d: Deployment,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    status: DeploymentStatus,
    now: datetime,
    *,
    estimate: bool,
) -> DeploymentStatus:
    """The status to write; `status` brings the conditions so far. `estimate` computes the progress of a rollout."""
    available = sum(rs.status.available_replicas or 0 for rs in sets)
    terminating = [rs.status.terminating_replicas for rs in sets if rs.status.observed_generation]
    result = DeploymentStatus(
        observed_generation=d.metadata.generation,
        replicas=sum(rs.status.replicas for rs in sets) or None,
        updated_replicas=(new.status.replicas if new else 0) or None,
        ready_replicas=sum(rs.status.ready_replicas or 0 for rs in sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(0, total(sets) - available) or None,
        terminating_replicas=None if None in terminating else sum(n or 0 for n in terminating),
        collision_count=status.collision_count,
        conditions=status.conditions,
    )
    result = with_condition(result, _availability(d, available), now)
    if not estimate:
        return result
    result = _with_progress(d, new, result, now)
    return _with_failures(result, sets, new, now)


def _availability(d: Deployment, available: int) -> DeploymentCondition:
    if available >= replicas_of(d) - rollout_limits(d).unavailable:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    return _condition(
        "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    )


def _with_progress(d: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: datetime) -> DeploymentStatus:
    """Return `status` with the conditions of the rollout's progress."""
    known = condition_of(status, "Progressing")
    if not _has_deadline(d):
        return _without(status, "Progressing")
    subject = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{d.metadata.name}"'
    done = _condition("Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
    settled = (status.replicas or 0) == (status.updated_replicas or 0)
    # A controller that sees an old status writes the condition of the former rollout again.
    former = new is not None and known is not None and known.message != done.message
    if settled and known is not None and known.reason == "NewReplicaSetAvailable" and not former:
        return status
    if is_complete(d, status):
        return with_condition(status, done, now, renew=former)
    if _progresses(d.status, status):
        moving = _condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.")
        return with_condition(status, moving, now, renew=True)
    if known is not None and _timed_out(d, known, now):
        late = _condition("Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return with_condition(status, late, now)
    return status


def _with_failures(
    status: DeploymentStatus, sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    for rs in (*((new,) if new else ()), *sets):
        for c in rs.status.conditions:
            if c.type == "ReplicaFailure":
                failure = DeploymentCondition(
                    type=c.type,
                    status=c.status,
                    reason=c.reason,
                    message=c.message,
                    last_transition_time=c.last_transition_time,
                    last_update_time=c.last_transition_time,
                )
                return with_condition(status, failure, now)
    return _without(status, "ReplicaFailure")


def is_complete(d: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all wanted replicas are of the new template and available, and no others are left."""
    counts = (status.updated_replicas or 0, status.replicas or 0, status.available_replicas or 0)
    return set(counts) == {replicas_of(d)} and (status.observed_generation or 0) >= d.metadata.generation


def _progresses(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    def old(status: DeploymentStatus) -> int:
        return (status.replicas or 0) - (status.updated_replicas or 0)

    return (
        (after.updated_replicas or 0) > (before.updated_replicas or 0)
        or old(after) < old(before)
        or (after.ready_replicas or 0) > (before.ready_replicas or 0)
        or (after.available_replicas or 0) > (before.available_replicas or 0)
    )


def _has_deadline(d: Deployment) -> bool:
    return d.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def _deadline(d: Deployment, known: DeploymentCondition, now: datetime) -> datetime:
    return (known.last_update_time or now) + timedelta(seconds=d.spec.progress_deadline_seconds or 0)


def _timed_out(d: Deployment, known: DeploymentCondition, now: datetime) -> bool:
    if known.reason == "NewReplicaSetAvailable":
        return False
    return known.reason == "ProgressDeadlineExceeded" or _deadline(d, known, now) < now


def seconds_to_deadline(d: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Return when to look whether the rollout is stuck; `None` when there is nothing to wait for."""
    known = condition_of(status, "Progressing")
    over = known is None or known.reason in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable", "DeploymentPaused")
    if known is None or over or not _has_deadline(d) or is_complete(d, status):
        return None
    return max(0.0, (_deadline(d, known, now) - now).total_seconds()) + 1.0


def condition_of(status: DeploymentStatus, type: str) -> DeploymentCondition | None:
    return next((c for c in status.conditions if c.type == type), None)


def with_condition(
    status: DeploymentStatus, condition: DeploymentCondition, now: datetime, *, renew: bool = False
) -> DeploymentStatus:
    """`status` with a condition; one of the same status and reason stays as it is, unless `renew` moves its time."""
    now = now.replace(microsecond=0)
    known = condition_of(status, condition.type)
    if known is not None and (known.status, known.reason) == (condition.status, condition.reason) and not renew:
        return status
    same = known is not None and known.status == condition.status
    changed = replace(
        condition,
        last_update_time=condition.last_update_time or now,
        last_transition_time=(known.last_transition_time if known and same else None)
        or condition.last_transition_time
        or now,
    )
    return replace(status, conditions=(*_without(status, condition.type).conditions, changed))


def _without(status: DeploymentStatus, type: str) -> DeploymentStatus:
    if condition_of(status, type) is None:
        return status
    return replace(status, conditions=tuple(c for c in status.conditions if c.type != type))


def _condition(type: str, status: str, reason: str, message: str) -> DeploymentCondition:
    return DeploymentCondition(type=type, status=status, reason=reason, message=message)
