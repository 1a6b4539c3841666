"""The kind MySQLBackup: one full backup of a cluster."""

from typing import Annotated

from steersman import CEL, Column, Conditions, Ge, Model, Resource
from steersman.models.markers import MaxLength, MinLength

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import BackupTarget


class MySQLBackupSpec(Model):
    __rules__ = (CEL("self.cluster == oldSelf.cluster", message="the cluster of a backup cannot change"),)
    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""
    keep: Annotated[int, Ge(1)] | None = None
    """Backups of this cluster that are kept; the cluster's own number by default."""


class MySQLBackupStatus(Model):
    observed_generation: int = 0
    phase: str = ""
    """Pending, Running, Verifying, Completed or Failed."""
    gtid: str = ""
    """The GTID set that the backup holds."""
    binlog: str = ""
    """Position of the binary log from which the archive continues."""
    size: int | None = None
    """Bytes in the target."""
    checksum: str = ""
    verified: bool | None = None
    """A scratch restore has succeeded."""
    source: str = ""
    """The member that the backup is taken from."""
    attempt: int = 0
    """The attempt of the current phase, from 1."""
    message: str = ""
    completed_at: str = ""
    """Time until which the backup reaches."""
    target: BackupTarget | None = None
    """Where the backup is; a restore needs no more than this, also when the cluster is gone."""
    location: str = ""
    """Path of the cluster within the target."""
    encryption_secret: str = ""
    conditions: Conditions = ()


class MySQLBackup(
    Resource,
    group="database.example.com",
    version="v1alpha1",
    plural="mysqlbackups",
    short_names=("mybk",),
    columns=(
        Column("Cluster", "spec.cluster"),
        Column("Phase", "status.phase"),
        Column("Size", "status.size"),
        Column("Verified", "status.verified"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A full backup of a MySQLCluster."""

    spec: MySQLBackupSpec
    status: MySQLBackupStatus = MySQLBackupStatus()
