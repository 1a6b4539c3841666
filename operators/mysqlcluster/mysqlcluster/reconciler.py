"""One reconcile of a cluster of either API group: children, observation, decision, effects, labels, status."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from steersman import Context, MergePatch, Result, replace
from steersman.client import Conflict, Invalid, NotFound
from steersman.k8s import Pod, StatefulSet

from mysqlcluster import children, credentials, metrics, names, server_settings
from mysqlcluster.actions import Clone
from mysqlcluster.agents import Agents, observe, perform
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.autoscaling import autoscale
from mysqlcluster.claims import ClaimError, claim
from mysqlcluster.connections import source_of_agents
from mysqlcluster.desired import Desired, SpecError
from mysqlcluster.engines import engine_of
from mysqlcluster.following import Followed, followed_by
from mysqlcluster.machine import ClusterState, Decision, Kind, Policy, decide
from mysqlcluster.observation import Observation
from mysqlcluster.passwords import passwords_of, rotate
from mysqlcluster.rollouts import roll_out, rollout_of
from mysqlcluster.status import (
    is_settled,
    role_of,
    state_of,
    with_invalid_spec,
    with_name_conflict,
    with_observation,
    with_state,
)
from mysqlcluster.storing import ClusterGoneError, store_status
from mysqlcluster.tokens import rotate_token
from mysqlcluster.trust import authority_of, rotate_certificates
from mysqlcluster.volumes import grow_volumes

__all__ = ["FORCE", "SwitchRequest", "reconcile_cluster"]

C = TypeVar("C", MySQLCluster, CompactCluster)

FORCE = "database.example.com/force-failover"
"""Annotation whose value is the epoch in which a failover is forced, even if acknowledged transactions may be lost."""
MAX_ROUNDS = 25
"""Most decisions in one reconcile; the next reconcile continues."""
REFUSED_RETRY_SECONDS = 1.0
NAME_CONFLICT_RETRY_SECONDS = 5.0
UPDATE_POLL_SECONDS = 1.0
WATCHED_SECONDS = 300.0
"""Greatest time between reconciles of a settled cluster with an open stream of changes from each agent."""


class SwitchRequest(NamedTuple):
    """A switchover that a user requests. An empty target means no request, `*` any member."""

    target: str = ""
    reason: str = ""


NO_SWITCH = SwitchRequest()


class Round(NamedTuple):
    """The outcome of the decisions of one reconcile."""

    seen: Observation
    decision: Decision


async def reconcile_cluster(cluster: C, ctx: Context, switch: SwitchRequest = NO_SWITCH) -> Result:
    """Perform one or more steps towards the desired state of a cluster, and store its status."""
    try:
        if cluster.metadata.deletion_timestamp:
            await store_status(ctx, cluster, replace(cluster.status, phase="Deleting"))
            return Result()
        return await _follow(cluster, ctx, switch)
    except Conflict:
        return Result(requeue_after=0.05)  # the object has changed; the cache receives the change soon
    except ClusterGoneError:
        ctx.log.debug("cluster_gone")
        return Result()


async def _follow(cluster: C, ctx: Context, switch: SwitchRequest) -> Result:
    try:
        followed = followed_by(cluster, ctx)
    except SpecError as problem:
        status = with_invalid_spec(cluster.status, cluster.metadata.generation, str(problem), ctx.now())
        await store_status(ctx, cluster, status)
        return Result()
    try:
        return await _reconcile(cluster, followed, ctx, switch)
    except ClaimError as problem:
        return await _refuse(cluster, str(problem), ctx)


async def _refuse(cluster: C, problem: str, ctx: Context) -> Result:
    """Report in the status that another object owns the children; nothing else is written."""
    status = with_name_conflict(cluster.status, cluster.metadata.generation, problem, ctx.now())
    if status.phase != cluster.status.phase:
        ctx.event("NameConflict", problem, type="Warning", action="Claim")
        ctx.log.warning("name_conflict", error=problem)
    await store_status(ctx, cluster, status)
    return Result(requeue_after=NAME_CONFLICT_RETRY_SECONDS)


async def _reconcile(cluster: C, followed: Followed, ctx: Context, switch: SwitchRequest) -> Result:
    want, before = followed.want, cluster.status
    # A running cluster must fail over even if a variable is refused.
    refused = server_settings.refused(want.config)
    want = want._replace(config={name: value for name, value in want.config.items() if name not in refused})
    size = _running_size(want, state_of(cluster.status))
    await claim(cluster, children.config_map(want, size), ctx)
    secret = await passwords_of(cluster, want, ctx)
    missing = credentials.missing_keys(secret)
    if missing:
        message = f"spec.secret: the Secret {want.secret} has no {', '.join(missing)}"
        await store_status(
            ctx, cluster, with_invalid_spec(cluster.status, cluster.metadata.generation, message, ctx.now())
        )
        return Result(requeue_after=REFUSED_RETRY_SECONDS)
    authority = await authority_of(want, ctx)
    rollout = rollout_of(cluster.status, want, ctx)
    await _apply(want._replace(image=rollout.template), size, followed.spec, ctx)
    agents = await source_of_agents().of(want.key, secret["agent-token"].decode(), authority)
    cluster, done = await _decide(cluster, want, agents, ctx, switch, size)
    policy = _policy(cluster, want, switch)
    cluster, progress = await roll_out(cluster, want, rollout, policy, done.seen, ctx)
    if progress.switch and state_of(cluster.status).transition is None:
        cluster, done = await _decide(cluster, want, agents, ctx, SwitchRequest("*", "upgrade"), size)
    storage = await grow_volumes(want, done.seen, ctx)
    cluster = await autoscale(cluster, done.seen, ctx, updating=cluster.status.phase == "Updating")
    await rotate_certificates(cluster, want, done.seen, ctx)
    await rotate_token(cluster, want, done.seen, authority, ctx)
    cluster = await rotate(cluster, credentials.revision(secret), done.seen, agents, ctx)
    await _label(want, state_of(cluster.status), done.seen, ctx)
    status = with_observation(
        cluster.status,
        want,
        cluster.metadata.generation,
        done.seen,
        done.decision.blocked,
        ctx.now(),
        "; ".join(filter(None, (followed.refused, progress.blocked, *_refusals(refused)))),
        (storage,),
    )
    if status.phase == "Blocked" and cluster.status.phase != "Blocked" and done.decision.blocked:
        ctx.event("FailoverBlocked", done.decision.blocked, type="Warning", action="Transition")
        ctx.log.warning("failover_blocked", epoch=status.epoch, error=done.decision.blocked)
    if want.substituted and cluster.status.observed_generation != cluster.metadata.generation:
        ctx.event("VersionSubstituted", want.substituted, type="Warning", action="Substitute")
        ctx.log.warning("version_substituted", reason=want.substituted)
    cluster = await store_status(ctx, cluster, status)
    metrics.record(
        want.key,
        state_of(cluster.status),
        done.seen,
        blocked=bool(done.decision.blocked),
        canary_failed=status.update is not None and status.update.phase in ("RollingBack", "Failed"),
        storage_ok=storage.status == "True",
    )
    after = done.decision.after
    if not want.autoscaling.enabled and storage.status == "True" and done.decision.idle and is_settled(before, status):
        members = names.members(want.key.name, size)
        if agents.watch(members, status.primary, partial(ctx.enqueue, "agent")):
            after = _watched_seconds(cluster.metadata.uid)
    return Result(requeue_after=min(after, UPDATE_POLL_SECONDS) if status.phase == "Updating" else after)


def _watched_seconds(uid: str) -> float:
    """Return from 80 to 100 % of `WATCHED_SECONDS`, so that clusters of one start are not reconciled together later."""
    return WATCHED_SECONDS * (1 - 0.2 * zlib.crc32(uid.encode()) / 2**32)


def _refusals(config: Mapping[str, str]) -> list[str]:
    return [f"spec.config.{name}: {problem}" for name, problem in config.items()]


async def _decide(
    cluster: C, want: Desired, agents: Agents, ctx: Context, switch: SwitchRequest, size: int
) -> tuple[C, Round]:
    """Observe, decide and act until the next step must wait for a later reconcile."""
    members = names.members(want.key.name, size)
    policy = _policy(cluster, want, switch)
    before: tuple[object, ...] = ()
    for _ in range(MAX_ROUNDS - 1):
        state = state_of(cluster.status)
        seen = await observe(agents, members, state, ctx.now().timestamp())
        decision = decide(policy, state, seen)
        if decision.store is not None:
            cluster = await store_status(ctx, cluster, with_state(cluster.status, decision.store))
            _report(ctx, state, decision, seen)
            if decision.store.transition is not None and decision.store.transition.kind is Kind.SWITCHOVER:
                policy = msgspec.structs.replace(policy, switch_to="")  # one request moves the primary only once
            await _label(want, decision.store, seen, ctx)
            continue
        if not decision.actions or decision.actions == before:
            return cluster, Round(seen, decision)
        before = decision.actions
        ctx.log.info("actions", epoch=state.epoch, actions=[f"{type(a).__name__} {a.member}" for a in before])
        for problem in await perform(agents, decision.actions):
            ctx.log.warning("action_failed", epoch=state.epoch, error=problem)
        for action in decision.actions:
            if isinstance(action, Clone) and action.keep_copy and not seen.get(action.member).clone.error:
                text = f"{action.member} receives a copy of {action.source}; its old data is kept on the volume"
                ctx.event("MemberRecloned", text, action="Clone")
    seen = await observe(agents, members, state_of(cluster.status), ctx.now().timestamp())
    return cluster, Round(seen, Decision(after=0.1))


def _policy(cluster: MySQLCluster | CompactCluster, want: Desired, switch: SwitchRequest) -> Policy:
    force = cluster.metadata.annotations.get(FORCE, "") == str(cluster.status.epoch)
    restore = want.restore
    return Policy(
        members=names.members(want.key.name, want.size),
        domain=names.domain(want.key),
        port=want.port,
        ack_count=want.replication.ack_count,
        max_ack_count=engine_of(want.flavor).max_ack_count,
        failover=want.failover.enabled,
        detection_seconds=want.failover.detection_seconds,
        min_interval_seconds=want.failover.min_interval_seconds,
        max_lag_seconds=want.failover.max_lag_seconds,
        degrade_to_async=want.replication.degrade_to_async,
        reclone=want.rejoin.errant_policy == "Reclone",
        settings=tuple(sorted(want.config.items())),
        settings_revision=server_settings.revision(want.config),
        paused=want.paused,
        force=force,
        switch_to=switch.target,
        switch_reason=switch.reason,
        backup=want.from_backup,
        until_time=(restore.point_in_time or "") if restore else "",
        until_gtid=(restore.gtid or "") if restore else "",
    )


def _running_size(want: Desired, state: ClusterState) -> int:
    """Return the number of Pods: a member that is removed keeps its Pod until it has left the quorum."""
    leaving = [names.ordinal(member) + 1 for member in state.quorum.members]
    return max(want.size, *leaving, 1)


async def _apply(want: Desired, size: int, spec: str, ctx: Context) -> None:
    await ctx.apply(children.config_map(want, size, spec))
    for service in children.services(want):
        await ctx.apply(service)
    await ctx.apply(children.budget(want))
    await ctx.apply(children.stateful_set(_with_storage_of(ctx.get(StatefulSet, want.key.name), want), size))


def _with_storage_of(found: StatefulSet | None, want: Desired) -> Desired:
    """Return the cluster with the volume size of its StatefulSet, whose templates cannot change."""
    for template in found.spec.volume_claim_templates if found is not None else ():
        if size := template.spec.resources.requests.get("storage"):
            return want._replace(storage=want.storage._replace(size=size))
    return want


def _report(ctx: Context, before: ClusterState, decision: Decision, seen: Observation) -> None:
    after = decision.store
    assert after is not None
    for notice in decision.notices:
        ctx.event(notice.reason, notice.message, type="Warning" if notice.warning else "Normal", action="Transition")
    step = after.transition.step.value if after.transition else ""
    kind = after.transition.kind.value if after.transition else ""
    ctx.log.info("state_stored", epoch=after.epoch, primary=after.primary, kind=kind, step=step)
    metrics.count(before, after, seen.time)


async def _label(want: Desired, state: ClusterState, seen: Observation, ctx: Context) -> None:
    """Update the role label of each Pod, which the Services select by."""
    pods = {pod.metadata.name: pod for pod in ctx.list(Pod, labels=names.labels(want.key.name))}
    # The labels of former roles are removed first, so that no Service selects two primaries.
    stays = names.members(want.key.name, want.size)
    roles = {member.name: role_of(state, member) for member in seen.members}
    # A replica that is removed gets no new clients.
    kept = [("" if role == "replica" and name not in stays else role, name) for name, role in roles.items()]
    wanted = sorted(kept, key=lambda each: each[0] != "")
    for role, name in wanted:
        pod = pods.get(name)
        if pod is None or pod.metadata.labels.get(names.ROLE_LABEL, "") == role:
            continue
        patch = MergePatch({"metadata": {"uid": pod.metadata.uid, "labels": {names.ROLE_LABEL: role or None}}})
        try:
            await ctx.patch(pod, patch)
        except (NotFound, Invalid):  # deleted or replaced (another uid); a change of the new Pod follows
            continue
        ctx.log.info("role_labelled", pod=name, role=role or "none", epoch=state.epoch)
