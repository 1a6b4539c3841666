"""Where the backups of a cluster go, what a new cluster is restored from, and which member is read."""

from __future__ import annotations

from steersman import Context, replace

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import (
    BackupTarget,
    MySQLCluster,
    MySQLClusterStatus,
    PvcTarget,
)
from mysqlcluster.backup.resources import Place, claim_name
from mysqlcluster.desired import AnyCluster

__all__ = ["MissingBackupError", "archive_place", "member_to_read", "restore_place"]

DEFAULT_CLAIM = PvcTarget()


class MissingBackupError(ValueError):
    """The backup that a new cluster comes from is not known; the message names the field and the way out."""


def archive_place(cluster: AnyCluster, ctx: Context) -> Place | None:
    """Return where a cluster's backups go; `None` if it has none."""
    if isinstance(cluster, MySQLCluster):
        policy = cluster.spec.backup
        return _place(cluster, policy.target, policy.encryption_secret) if policy else None
    schedules = [each for each in ctx.list(MySQLBackupSchedule) if each.spec.cluster == cluster.metadata.name]
    instances = [each for each in ctx.list(MySQLBackupInstance) if each.spec.cluster == cluster.metadata.name]
    if not schedules and not instances:
        return None
    size = schedules[0].spec.storage if schedules else DEFAULT_CLAIM.size
    return _place(cluster, BackupTarget(pvc=replace(DEFAULT_CLAIM, size=size)), "")


def _place(cluster: AnyCluster, target: BackupTarget, encryption_secret: str) -> Place:
    """The path has the identity of the cluster: another one of the same name begins another history."""
    metadata = cluster.metadata
    if target.pvc is not None:
        named = replace(target.pvc, claim_name=claim_name(metadata.name, target.pvc))
        target = replace(target, pvc=named)
    return Place(target, f"{metadata.namespace}/{metadata.name}-{metadata.uid[:8]}", encryption_secret)


def restore_place(cluster: AnyCluster, ctx: Context) -> Place | None:
    """Return what a cluster without data is restored from; `None` if it is not, or has data.

    Raises:
        MissingBackupError: There is no such backup.
    """
    name = cluster.spec.from_backup
    if not name or cluster.status.primary:
        return None
    for backup in (ctx.get(MySQLBackup, name), ctx.get(MySQLBackupInstance, name)):
        if backup is not None and backup.status.target is not None:
            status = backup.status
            assert status.target is not None
            return Place(status.target, status.location, status.encryption_secret)
    for other in (ctx.get(MySQLCluster, name), ctx.get(CompactCluster, name)):
        place = archive_place(other, ctx) if other is not None else None
        if place is not None:
            return place
    raise MissingBackupError(
        f"spec.fromBackup: {name!r} is neither a backup with data nor a cluster with backups in this namespace"
    )


def member_to_read(status: MySQLClusterStatus, preferred: str = "") -> str:
    """Return the member to copy or to follow: the one before while it is fit, then a replica, then the primary."""
    if status.transition is not None:
        return preferred
    fit = [each for each in status.members if each.role in ("primary", "replica") and not each.errant]
    if any(each.name == preferred for each in fit):
        return preferred
    replicas = [each for each in fit if each.role == "replica"]
    best = min(replicas, key=lambda each: (each.lag_seconds or 0.0, each.name), default=None)
    return best.name if best else next((each.name for each in fit), "")
