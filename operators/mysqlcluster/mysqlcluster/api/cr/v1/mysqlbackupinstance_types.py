"""The kind MySQLBackupInstance: one full backup, created by a schedule or by a user."""

from typing import Annotated

from steersman import Column, Model, Resource
from steersman.models.markers import MaxLength, MinLength

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackupStatus


class MySQLBackupInstanceSpec(Model):
    """The cluster to back up."""

    schedule: Annotated[str, MaxLength(253)] = ""
    """Name of the MySQLBackupSchedule, empty for a backup on demand."""
    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""


class MySQLBackupInstanceStatus(MySQLBackupStatus):
    """The progress and the result of a backup."""

    status: str = ""
    """Scheduled, Started, Failed or Completed."""


class MySQLBackupInstance(
    Resource,
    group="cr.mysqloperator.grtl.github.com",
    version="v1",
    plural="mysqlbackupinstances",
    columns=(Column("Cluster", "spec.cluster"), Column("Status", "status.status")),
):
    """One full backup of a MySQLCluster."""

    spec: MySQLBackupInstanceSpec
    status: MySQLBackupInstanceStatus = MySQLBackupInstanceStatus()
