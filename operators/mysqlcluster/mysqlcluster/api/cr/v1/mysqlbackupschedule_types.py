"""The kind MySQLBackupSchedule: full backups of a cluster at set times."""

from typing import Annotated

from steersman import Column, Conditions, Model, Resource
from steersman.models.markers import MaxLength, MinLength


class MySQLBackupScheduleSpec(Model):
    """The cluster and the schedule."""

    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""
    time: Annotated[str, MinLength(9), MaxLength(128)]
    """Schedule of the backups in cron format, in UTC."""
    storage: Annotated[str, MaxLength(32)] = "1Gi"
    """Size of the volume for the backups, such as 1Gi."""


class MySQLBackupScheduleStatus(Model):
    """The last backup of a schedule."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    last_backup: str = ""
    """Name of the last MySQLBackupInstance."""
    last_scheduled: str = ""
    """The scheduled time of the last backup (RFC 3339)."""
    conditions: Conditions = ()
    """The conditions of the object."""


class MySQLBackupSchedule(
    Resource,
    group="cr.mysqloperator.grtl.github.com",
    version="v1",
    plural="mysqlbackupschedules",
    columns=(Column("Cluster", "spec.cluster"), Column("Time", "spec.time"), Column("Last", "status.last_backup")),
):
    """Full backups of a MySQLCluster at set times."""

    spec: MySQLBackupScheduleSpec
    status: MySQLBackupScheduleStatus = MySQLBackupScheduleStatus()
