"""The upgrade of a cluster: its stored state, the images of the Pods, and the effects of a plan."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from steersman import Context, replace
from steersman.k8s import Pod, StatefulSet

from mysqlcluster import names
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, MySQLClusterStatus, UpdateStatus
from mysqlcluster.desired import Desired
from mysqlcluster.machine import Policy
from mysqlcluster.machine.update import Phase, Rollout, Rules, plan
from mysqlcluster.observation import Observation
from mysqlcluster.status import seconds_of, state_of, time_text
from mysqlcluster.storing import store_status

__all__ = ["Progress", "roll_out", "rollout_of", "with_rollout"]

C = TypeVar("C", MySQLCluster, CompactCluster)
CONTAINER = "mysql"


class Progress(NamedTuple):
    """The outcome of the steps of one reconcile."""

    switch: bool = False
    """The upgrade needs a switchover before its next step."""
    blocked: str = ""


def rollout_of(status: MySQLClusterStatus, want: Desired, ctx: Context) -> Rollout:
    """Return the stored upgrade; without one, the state of a cluster that runs the image of its StatefulSet or spec."""
    stored = status.update
    if stored is not None:
        return Rollout(
            image=stored.image,
            target=stored.target,
            phase=Phase(stored.phase),
            canary=stored.canary,
            started_at=seconds_of(stored.started_at),
            samples=stored.samples,
            errors=stored.errors,
            canary_seconds=stored.canary_seconds,
            others_seconds=stored.others_seconds,
            sampled_at=seconds_of(stored.sampled_at),
            message=stored.message,
        )
    found = ctx.get(StatefulSet, want.key.name) if status.primary else None
    pod = found.spec.template.spec if found is not None else None
    image = next((each.image for each in pod.containers if each.name == CONTAINER), None) if pod is not None else None
    return Rollout(image=image or want.image)


def with_rollout(status: MySQLClusterStatus, rollout: Rollout) -> MySQLClusterStatus:
    """Return a status that stores the upgrade."""
    stored = UpdateStatus(
        image=rollout.image,
        target=rollout.target,
        phase=rollout.phase,
        canary=rollout.canary,
        started_at=time_text(rollout.started_at),
        samples=rollout.samples,
        errors=rollout.errors,
        canary_seconds=round(rollout.canary_seconds, 6),
        others_seconds=round(rollout.others_seconds, 6),
        sampled_at=time_text(rollout.sampled_at),
        message=rollout.message,
    )
    return replace(status, update=stored)


async def roll_out(
    cluster: C, want: Desired, rollout: Rollout, policy: Policy, seen: Observation, ctx: Context
) -> tuple[C, Progress]:
    """Take one step of the upgrade: store it, or replace one Pod.

    Args:
        cluster: The cluster as it is stored.
        want: The model of the spec.
        rollout: The stored state of the upgrade; the StatefulSet already has its image.
        policy: The policy of the cluster.
        seen: The members.
        ctx: The context of the reconcile.

    Raises:
        Conflict: The cluster has changed since it was read.
    """
    state = state_of(cluster.status)
    pods = {pod.metadata.name: pod for pod in ctx.list(Pod, labels=names.labels(want.key.name))}
    outdated = tuple(
        name
        for name in policy.members
        if (pod := pods.get(name)) is not None
        and not pod.metadata.deletion_timestamp
        and _image(pod) != rollout.template
    )
    step = plan(_rules(want), rollout, policy, state, seen, outdated)
    for notice in step.notices:
        ctx.event(notice.reason, notice.message, type="Warning" if notice.warning else "Normal", action="Update")
    if step.store is not None:
        if step.store.phase is not rollout.phase:
            ctx.log.info("update_step", phase=step.store.phase, canary=step.store.canary, reason=step.store.message)
        cluster = await store_status(ctx, cluster, with_rollout(cluster.status, step.store))
    elif cluster.status.update is None and state.primary:
        cluster = await store_status(ctx, cluster, with_rollout(cluster.status, rollout))
    if step.replace and (pod := pods.get(step.replace)) is not None:
        await ctx.delete(pod)
        ctx.log.info("pod_replaced", pod=step.replace, image=rollout.template, reason=f"update: {rollout.phase}")
    return cluster, Progress(step.switch, step.blocked)


def _image(pod: Pod) -> str:
    return next((each.image or "" for each in pod.spec.containers if each.name == CONTAINER), "")


def _rules(want: Desired) -> Rules:
    canary = want.update.canary
    return Rules(
        image=want.image,
        version=want.version,
        strategy=want.update.strategy,
        analysis_seconds=canary.analysis_seconds,
        max_error_rate=canary.max_error_rate,
        max_lag_seconds=canary.max_lag_seconds,
        auto_rollback=canary.auto_rollback,
    )
