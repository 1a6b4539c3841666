"""The kind MySQLBackupSchedule: full backups of a cluster at set times."""

from typing import Annotated

from steersman import Column, Conditions, Model, Resource
from steersman.models.markers import MaxLength, MinLength


class MySQLBackupScheduleSpec(Model):
    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""
    time: Annotated[str, MinLength(9), MaxLength(128)]
    """Time of the backups, in the format of CronJobs, in UTC."""
    storage: Annotated[str, MaxLength(32)] = "1Gi"
    """Size of the volume that the backups are written to."""


class MySQLBackupScheduleStatus(Model):
    observed_generation: int = 0
    last_backup: str = ""
    """Name of the last MySQLBackupInstance."""
    last_scheduled: str = ""
    """Time of the schedule that it was made for."""
    conditions: Conditions = ()


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
