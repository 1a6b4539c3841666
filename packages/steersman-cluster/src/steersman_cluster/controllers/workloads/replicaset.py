"""ReplicaSets: keep the desired number of Pods of one template.

A reconcile that creates Pods ends when the cache has them, so that the next one does not count without them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from steersman.client import ApiError, ClientError
from steersman.controller import Result
from steersman.k8s import Pod, ReplicaSet
from steersman.k8s.apps_v1 import ReplicaSetCondition, ReplicaSetStatus
from steersman.k8s.core_v1 import PodTemplateSpec, ReplicationControllerCondition
from steersman.models import ObjectMeta
from steersman.operator import Context, Operator
from steersman_cluster.controllers.creation import create_pods
from steersman_cluster.controllers.pods import (
    deletion_order,
    is_active,
    is_available,
    is_ready,
    pod_from_template,
    seconds_to_available,
)
from steersman_cluster.controllers.workloads.adoption import claimed, watch_orphans

__all__ = ["RETRY_SECONDS", "register", "replica_failure", "replica_set_status", "scale_pods"]

C = TypeVar("C", ReplicaSetCondition, ReplicationControllerCondition)

_MAX_BATCH_PODS = 500
RETRY_SECONDS = 0.25
"""Seconds until Pods that were refused are tried again."""


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        owns=[Pod], reads=[ReplicaSet], watches=[watch_orphans(Pod, ReplicaSet)], workers=8, terminating=True
    )(reconcile)


async def reconcile(rs: ReplicaSet, ctx: Context) -> Result:
    """Create or delete Pods, then count."""
    pods = await claimed(ctx, rs, Pod, accepts=is_active)
    active = [pod for pod in pods if is_active(pod)]
    problem: ClientError | None = None
    if rs.metadata.deletion_timestamp is None:
        problem = await scale_pods(ctx, rs, active, wanted(rs), rs.spec.template)
        pods = ctx.list(Pod, owned=True)
    status = replica_set_status(rs, pods, ctx.now(), problem)
    if problem is not None:
        ctx.log.warning("pods_not_created", problem=str(problem))
    wait = seconds_to_available(pods, rs.spec.min_ready_seconds or 0, ctx.now())
    if problem is not None:
        wait = RETRY_SECONDS if wait is None else min(wait, RETRY_SECONDS)
    return Result(status=status, requeue_after=wait)


def wanted(owner: Any) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


async def scale_pods(
    ctx: Context, owner: Any, active: Sequence[Pod], replicas: int, template: PodTemplateSpec | None
) -> ClientError | None:
    """Make the number of active Pods `replicas`; returns what kept it from that."""
    missing = replicas - len(active)
    if missing > 0 and template is not None:
        pod = pod_from_template(template, owner)
        problem = await create_pods(ctx, [pod] * min(missing, _MAX_BATCH_PODS))
        if problem is not None:
            ctx.event("FailedCreate", f"Error creating: {problem}", type="Warning", action="Create")
        return problem
    if missing < 0:
        peers = Counter(pod.spec.node_name or "" for pod in active if pod.spec)
        victims = deletion_order(active, peers, ctx.now())[: min(-missing, _MAX_BATCH_PODS)]

        async def delete(pod: Pod) -> None:
            if await ctx.delete(pod):
                ctx.event("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}", action="Delete")

        await asyncio.gather(*(delete(pod) for pod in victims))
    return None


def replica_set_status(
    rs: ReplicaSet, pods: Sequence[Pod], now: datetime, problem: ClientError | None = None
) -> ReplicaSetStatus:
    """Return the status: the counts of Pods, and the condition ReplicaFailure."""
    active = [pod for pod in pods if is_active(pod)]
    metadata = rs.spec.template.metadata or ObjectMeta()
    labels = metadata.labels.items()
    old = rs.status
    conditions = replica_failure(old.conditions, ReplicaSetCondition, problem, now)
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active) or None,
        ready_replicas=sum(is_ready(pod) for pod in active) or None,
        available_replicas=sum(is_available(pod, rs.spec.min_ready_seconds or 0, now) for pod in active) or None,
        terminating_replicas=sum(
            pod.metadata.deletion_timestamp is not None and pod.status.phase not in _FINISHED for pod in pods
        ),
        observed_generation=rs.metadata.generation,
        conditions=conditions,
    )


_FINISHED = ("Succeeded", "Failed")


def replica_failure(old: Sequence[C], kind: type[C], problem: ClientError | None, now: datetime) -> tuple[C, ...]:
    """Return the conditions with `ReplicaFailure` of type `kind` while `problem` prevents the creation of Pods."""
    others = tuple(c for c in old if c.type != "ReplicaFailure")
    if problem is None:
        return others
    known = next((c for c in old if c.type == "ReplicaFailure" and c.status == "True"), None)
    message = problem.status.message if isinstance(problem, ApiError) else str(problem)
    made = known or kind(
        type="ReplicaFailure", status="True", reason="FailedCreate", message=message, last_transition_time=now
    )
    return (*others, made)
