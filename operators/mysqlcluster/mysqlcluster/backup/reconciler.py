"""The reconciles of the backup controllers: the archiver of a cluster, its schedule and retention, and full backups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from steersman import Condition, Context, ObjectMeta, Result, replace
from steersman.client import AlreadyExists, Conflict
from steersman.controller import controller_of
from steersman.k8s import ConfigMap, PersistentVolumeClaim, Secret, Service, StatefulSet
from steersman.models import merge_conditions

from mysqlcluster import names
from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupSpec, MySQLBackupStatus
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import BackupStatus, MySQLCluster
from mysqlcluster.backup import metrics, resources
from mysqlcluster.backup.client import ArchiverClient, ArchiverError
from mysqlcluster.backup.lifecycle import ENDED, KEEP, Facts, advance, surplus
from mysqlcluster.backup.protocol import ArchiverState, DeleteBackup, Follow
from mysqlcluster.backup.retention import BinlogRetention
from mysqlcluster.backup.schedules import ScheduleError, due, name_at
from mysqlcluster.backup.setup import MissingBackupError, archive_place, member_to_read, restore_place
from mysqlcluster.desired import Desired, SpecError, desired
from mysqlcluster.storing import ClusterGoneError, store_status

__all__ = ["delete_data", "reconcile_archiver", "reconcile_backup"]

POLL_SECONDS = 2.0
STEP_SECONDS = 0.3
STATUS_SECONDS = 5.0
"""Least time between two writes of the status that change only `recoverableTo`."""

BINLOGS = BinlogRetention()

C = TypeVar("C", MySQLCluster, CompactCluster)


async def reconcile_archiver(cluster: C, ctx: Context) -> Result:
    """Apply the archiver of a cluster, select its member, create scheduled backups, and report in the status."""
    try:
        want = desired(cluster)
        archive, source = archive_place(cluster, ctx), restore_place(cluster, ctx)
    except SpecError:
        return Result()  # the controller of the cluster reports it
    except MissingBackupError as problem:
        await _report(cluster, ctx, cluster.status.backup, _condition(False, "BackupNotFound", str(problem)))
        return Result(requeue_after=POLL_SECONDS)
    if not _owns_names(cluster, ctx):
        return Result(requeue_after=POLL_SECONDS)  # the controller of the cluster reports it
    if archive is None:
        metrics.forget(want.key)
        await BINLOGS.apply(want, cluster.status, None, ctx)
    if archive is None and source is None:
        await _remove(want, ctx)
        return Result(requeue_after=POLL_SECONDS * 5)
    pvc = archive.target.pvc if archive else None
    if archive is not None and pvc is not None and ctx.get(PersistentVolumeClaim, pvc.claim_name) is None:
        await _create(ctx, resources.claim(want, pvc))
    await ctx.apply(resources.config_map(want, archive, source))
    await ctx.apply(resources.service(want))
    await ctx.apply(resources.stateful_set(want, archive, source))
    if archive is not None and cluster.status.primary:
        try:
            await _follow_and_report(cluster, want, ctx)
        except Conflict:
            return Result(requeue_after=STEP_SECONDS)  # the object has changed since it was read
        except ClusterGoneError:
            return Result()
    return Result(requeue_after=POLL_SECONDS)


def _owns_names(cluster: MySQLCluster | CompactCluster, ctx: Context) -> bool:
    """Return whether the cluster owns the children with its name, and can own those of its archiver."""
    name = cluster.metadata.name
    first, archiver = ctx.get(ConfigMap, names.config_name(name)), ctx.get(StatefulSet, names.archiver(name))
    owners = [controller_of(each) for each in (first, archiver) if each is not None]
    return first is not None and all(each is not None and each.uid == cluster.metadata.uid for each in owners)


async def _create(ctx: Context, obj: PersistentVolumeClaim | MySQLBackup) -> None:
    try:
        await ctx.create(obj, owned=False)
    except AlreadyExists:
        return
    ctx.log.info("created", kind=type(obj).__name__, name=obj.metadata.name, reason="missing")


async def _remove(want: Desired, ctx: Context) -> None:
    name = names.archiver(want.key.name)
    for kind in (StatefulSet, Service, ConfigMap):
        if ctx.get(kind, name) is not None:
            await ctx.delete(kind, name)
            ctx.log.info("archiver_removed", kind=kind.__name__, name=name, reason="the cluster has no backups")


def _client(want: Desired, ctx: Context) -> ArchiverClient | None:
    secret, tls = ctx.get(Secret, want.secret), ctx.get(Secret, names.tls_name(want.key.name))
    if secret is None or tls is None or "agent-token" not in secret.data or "ca.crt" not in tls.data:
        return None
    return ArchiverClient(want.key, secret.data["agent-token"].decode(), tls.data["ca.crt"].decode())


async def _follow_and_report(cluster: C, want: Desired, ctx: Context) -> None:
    client = _client(want, ctx)
    state = await client.state() if client else None
    known = cluster.status.backup or BackupStatus()
    if isinstance(cluster, MySQLCluster):
        known = await _schedule(cluster, known, ctx)
        await _retain(cluster, ctx)
    if state is None or client is None:
        metrics.record_problem(want.key)
        await _report(cluster, ctx, known, _condition(False, "ArchiverUnreachable", "the archiver does not answer"))
        return
    member = member_to_read(cluster.status, state.source)
    continuous = (
        cluster.spec.backup is None or cluster.spec.backup.continuous_binlog
        if isinstance(cluster, MySQLCluster)
        else True
    )
    wanted = member if continuous else ""
    if state.ready and wanted != state.source:
        try:
            await client.send(Follow(source=wanted))
            ctx.log.info("archive_source_set", member=wanted or "none", reason="chosen by role and lag")
        except ArchiverError as problem:
            ctx.log.warning("archiver_refused", error=str(problem))
    await BINLOGS.apply(want, cluster.status, state.position if continuous else None, ctx)
    now = ctx.now().timestamp()
    verified = [each for each in state.backups if each.verified]
    last = max((each.ended for each in verified), default=None)
    lag = now - state.recoverable_to if state.recoverable_to else None
    judged = _judge(state, last)
    age = now - last if last else None
    metrics.record(want.key, age, lag, len(state.gaps), ready=judged.status == "True")
    await _report(cluster, ctx, _status(known, state), judged)


def _status(known: BackupStatus, state: ArchiverState) -> BackupStatus:
    verified = [each.ended for each in state.backups if each.verified]
    to = max([state.recoverable_to, *verified[-1:]]) if verified else 0.0
    moved = not known.recoverable_to or to - datetime.fromisoformat(known.recoverable_to).timestamp() >= STATUS_SECONDS
    return replace(
        known,
        last_success=_text(max(verified)) if verified else "",
        recoverable_from=_text(min(verified)) if verified else "",
        recoverable_to=_text(to) if verified and moved else known.recoverable_to,
        source=state.source,
    )


def _judge(state: ArchiverState, last: float | None) -> Condition:
    if not state.ready or state.problem:
        return _condition(False, "ArchiveInterrupted", state.problem or "the target is read")
    if last is None:
        return _condition(False, "NoBackup", "no full backup has been verified yet")
    if open_gaps := [each for each in state.gaps if each.until_time >= last]:
        message = f"{open_gaps[-1].text}; the next full backup closes the gap"
        return _condition(False, "ArchiveGap", message)
    closed = f"; {len(state.gaps)} gaps before the last backup: {state.gaps[-1].text}" if state.gaps else ""
    return _condition(True, "Recoverable", f"the archive follows {state.source or 'no member'}{closed}")


def _condition(holds: bool, reason: str, message: str) -> Condition:
    return Condition(type="BackupReady", status="True" if holds else "False", reason=reason, message=message)


async def _report(cluster: C, ctx: Context, backup: BackupStatus | None, condition: Condition) -> None:
    before = {each.type: each for each in cluster.status.conditions}.get(condition.type)
    if condition.reason == "ArchiveGap" and (before is None or before.reason != "ArchiveGap"):
        ctx.event("ArchiveGap", condition.message, type="Warning", action="Archive")
    conditions = merge_conditions(cluster.status.conditions, (condition,), ctx.now(), cluster.metadata.generation)
    await store_status(ctx, cluster, replace(cluster.status, backup=backup, conditions=conditions))


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# Schedule and retention.


async def _schedule(cluster: MySQLCluster, known: BackupStatus, ctx: Context) -> BackupStatus:
    """Create the backup that is due; its name contains its time, so that it is created only once."""
    policy, metadata = cluster.spec.backup, cluster.metadata
    assert policy is not None
    since = datetime.fromisoformat(known.last_scheduled) if known.last_scheduled else metadata.creation_timestamp
    try:
        time = due("spec.backup.schedule", policy.schedule, since or ctx.now(), ctx.now())
    except ScheduleError as problem:
        ctx.event("InvalidSchedule", str(problem), type="Warning", action="Schedule")
        return known
    if time is None:
        return known
    name = name_at(metadata.name, time)
    await _create(
        ctx,
        MySQLBackup(
            metadata=ObjectMeta(name=name, namespace=metadata.namespace, labels={names.CLUSTER_LABEL: metadata.name}),
            spec=MySQLBackupSpec(cluster=metadata.name),
        ),
    )
    return replace(known, last_scheduled=_text(time.timestamp()))


async def _retain(cluster: MySQLCluster, ctx: Context) -> None:
    """Delete the backups beyond the retention; the finalizer deletes their data."""
    mine = [each for each in ctx.list(MySQLBackup) if each.spec.cluster == cluster.metadata.name]
    completed = [each for each in mine if each.status.phase == "Completed"]
    newest = max(completed, key=lambda each: str(each.metadata.creation_timestamp), default=None)
    keep = cluster.spec.backup.keep if cluster.spec.backup else KEEP
    if newest is not None and newest.spec.keep is not None:
        keep = newest.spec.keep
    for backup in surplus(mine, keep):
        await ctx.delete(backup)
        ctx.log.info("backup_deleted", backup=backup.metadata.name, reason=f"{keep} are kept")


# Full backups.

B = TypeVar("B", MySQLBackup, MySQLBackupInstance)


def _cluster_of(backup: MySQLBackup | MySQLBackupInstance, ctx: Context) -> MySQLCluster | CompactCluster | None:
    """Return the cluster of a backup: first of its own API group, then of the other."""
    own, other = (MySQLCluster, CompactCluster) if isinstance(backup, MySQLBackup) else (CompactCluster, MySQLCluster)
    return ctx.get(own, backup.spec.cluster) or ctx.get(other, backup.spec.cluster)


async def _facts(
    backup: B, cluster: MySQLCluster | CompactCluster | None, ctx: Context
) -> tuple[Facts, ArchiverClient | None]:
    if cluster is None:
        return Facts(None, "", f"spec.cluster: there is no MySQLCluster {backup.spec.cluster}"), None
    if archive_place(cluster, ctx) is None:
        return Facts(None, "", f"MySQLCluster {backup.spec.cluster} has no spec.backup.target"), None
    try:
        client = _client(desired(cluster), ctx)
    except SpecError as problem:
        return Facts(None, "", str(problem)), None
    state = await client.state() if client else None
    return Facts(state, member_to_read(cluster.status)), client


async def reconcile_backup(backup: B, ctx: Context) -> tuple[MySQLBackupStatus, float | None]:
    """Perform the next step of a backup; return its status, and the delay of the next reconcile in seconds.

    A step is stored before its job is sent: a job is sent only by a reconcile that does not change the status.
    """
    if backup.status.phase in ENDED:
        return backup.status, None
    cluster = _cluster_of(backup, ctx)
    facts, client = await _facts(backup, cluster, ctx)
    step = advance(backup.metadata.name, backup.status, facts)
    status = replace(step.status, observed_generation=backup.metadata.generation)
    place = archive_place(cluster, ctx) if cluster is not None else None
    if status.phase == "Running" and place is not None:
        status = replace(
            status, target=place.target, location=place.location, encryption_secret=place.encryption_secret
        )
    if status == backup.status and step.job is not None and client is not None:
        try:
            await client.send(step.job)
        except ArchiverError as problem:
            ctx.log.debug("archiver_refused", error=str(problem))
    if status.phase != backup.status.phase:
        ctx.log.info("backup_phase", phase=status.phase, source=status.source, reason=status.message)
    if status.phase in ENDED:
        metrics.count(status.phase)
        about: Sequence[object] = [backup, *([cluster] if cluster is not None else [])]
        for each in about:
            if status.phase == "Completed":
                text = f"{backup.metadata.name}: {status.size} bytes from {status.source}, verified"
                ctx.event("BackupCompleted", text, action="Backup", about=each)
            else:
                text = f"{backup.metadata.name}: {status.message}"
                ctx.event("BackupFailed", text, type="Warning", action="Backup", about=each)
        return status, None
    return status, STEP_SECONDS if status.phase != "Pending" else POLL_SECONDS


async def delete_data(backup: B, ctx: Context) -> Result:
    """Delete the data of a terminating backup; if its cluster is deleted, the data stays in the target."""
    cluster = _cluster_of(backup, ctx)
    if cluster is None or backup.status.target is None:
        return Result()
    _, client = await _facts(backup, cluster, ctx)
    state = await client.state() if client else None
    if client is None or archive_place(cluster, ctx) is None:
        return Result()
    if state is None or not state.ready:
        return Result(requeue_after=POLL_SECONDS)
    if state.running is None and not any(each.name == backup.metadata.name for each in state.backups):
        return Result()
    try:
        await client.send(DeleteBackup(name=backup.metadata.name))
    except ArchiverError as problem:
        ctx.log.debug("archiver_refused", error=str(problem))
    return Result(requeue_after=STEP_SECONDS)
