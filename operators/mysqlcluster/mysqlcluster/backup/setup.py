"""The target of a cluster's backups, the source of a restore, and the member that backups read from."""

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
    """The backup for a new cluster does not exist; the message names the field and the solution."""


def archive_place(cluster: AnyCluster, ctx: Context) -> Place | None:
    """Return the location of a cluster's backups; `None` if it has none."""
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
    """Return the location, with the UID of the cluster: a later cluster of the same name has another history."""
    metadata = cluster.metadata
    if target.pvc is not None:
        named = replace(target.pvc, claim_name=claim_name(metadata.name, target.pvc))
        target = replace(target, pvc=named)
    return Place(target, f"{metadata.namespace}/{metadata.name}-{metadata.uid[:8]}", encryption_secret)


def restore_place(cluster: AnyCluster, ctx: Context) -> Place | None:
    """Return the archive that a new cluster is restored from; `None` if the cluster has data or no such source.

    Raises:
        MissingBackupError: The backup does not exist.
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
    """Return the member to copy or follow: the previous one if it is usable, else a replica, else the primary."""
    if status.transition is not None:
        return preferred
    fit = [each for each in status.members if each.role in ("primary", "replica") and not each.errant]
    if any(each.name == preferred for each in fit):
        return preferred
    replicas = [each for each in fit if each.role == "replica"]
    best = min(replicas, key=lambda each: (each.lag_seconds or 0.0, each.name), default=None)
    return best.name if best else next((each.name for each in fit), "")
