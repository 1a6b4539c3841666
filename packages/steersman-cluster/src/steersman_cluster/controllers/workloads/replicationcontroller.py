"""ReplicationControllers: the predecessors of ReplicaSets, which create and delete Pods in the same way."""

from __future__ import annotations

from steersman.client import ClientError
from steersman.controller import Result
from steersman.k8s import Pod, ReplicaSet, ReplicationController
from steersman.k8s.apps_v1 import ReplicaSetSpec
from steersman.k8s.core_v1 import PodTemplateSpec, ReplicationControllerCondition, ReplicationControllerStatus
from steersman.models import LabelSelector
from steersman.operator import Context, Operator
from steersman_cluster.controllers.pods import is_active, seconds_to_available
from steersman_cluster.controllers.workloads.adoption import claimed, selector_of
from steersman_cluster.controllers.workloads.replicaset import (
    RETRY_SECONDS,
    replica_failure,
    replica_set_status,
    scale_pods,
    wanted,
)

__all__ = ["register"]


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(owns=[Pod], terminating=True)(reconcile)


def as_replica_set(rc: ReplicationController) -> ReplicaSet:
    """Return a ReplicaSet with the same metadata and spec."""
    spec = ReplicaSetSpec(
        replicas=rc.spec.replicas,
        min_ready_seconds=rc.spec.min_ready_seconds,
        selector=LabelSelector(match_labels=rc.spec.selector),
        template=rc.spec.template or PodTemplateSpec(),
    )
    return ReplicaSet(metadata=rc.metadata, spec=spec)


async def reconcile(rc: ReplicationController, ctx: Context) -> Result:
    """Create or delete Pods, then count."""
    rs = as_replica_set(rc)
    pods = await claimed(ctx, rc, Pod, accepts=is_active, selector=selector_of(rs))
    problem: ClientError | None = None
    if rc.metadata.deletion_timestamp is None:
        active = [pod for pod in pods if is_active(pod)]
        problem = await scale_pods(ctx, rc, active, wanted(rc), rs.spec.template)
        pods = ctx.list(Pod, owned=True)
    counts = replica_set_status(rs, pods, ctx.now())
    status = ReplicationControllerStatus(
        replicas=counts.replicas,
        fully_labeled_replicas=counts.fully_labeled_replicas,
        ready_replicas=counts.ready_replicas,
        available_replicas=counts.available_replicas,
        observed_generation=counts.observed_generation,
        conditions=replica_failure(rc.status.conditions, ReplicationControllerCondition, problem, ctx.now()),
    )
    wait = seconds_to_available(pods, rc.spec.min_ready_seconds or 0, ctx.now())
    if problem is not None:
        ctx.log.warning("pods_not_created", problem=str(problem))
        wait = RETRY_SECONDS if wait is None else min(wait, RETRY_SECONDS)
    return Result(status=status, requeue_after=wait)
