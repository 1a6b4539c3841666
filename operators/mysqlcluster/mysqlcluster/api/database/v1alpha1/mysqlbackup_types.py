"""The kind MySQLBackup: one full backup of a cluster."""

from typing import Annotated

from steersman import CEL, Column, Conditions, Ge, Model, Resource
from steersman.models.markers import MaxLength, MinLength

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import BackupTarget


class MySQLBackupSpec(Model):
    """The cluster to back up."""

    __rules__ = (CEL("self.cluster == oldSelf.cluster", message="the cluster of a backup cannot change"),)
    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""
    keep: Annotated[int, Ge(1)] | None = None
    """Number of backups of this cluster to keep. Default: that of the cluster's backup policy."""


class MySQLBackupStatus(Model):
    """The progress and the result of a backup."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: str = ""
    """Pending, Running, Verifying, Completed or Failed."""
    gtid: str = ""
    """The GTID set that the backup contains."""
    binlog: str = ""
    """Position of the binary log from which the archive continues."""
    size: int | None = None
    """Size in the target, in bytes."""
    checksum: str = ""
    """SHA-256 of the stored data, in hexadecimal."""
    verified: bool | None = None
    """Whether a test restore has succeeded."""
    source: str = ""
    """Name of the Pod that is backed up."""
    attempt: int = 0
    """The attempt of the current phase, from 1."""
    message: str = ""
    """Explanation of the phase."""
    completed_at: str = ""
    """Time of the state that the backup contains (RFC 3339)."""
    target: BackupTarget | None = None
    """The place of the backup. A restore needs only this, also after the deletion of the cluster."""
    location: str = ""
    """Path of the cluster within the target."""
    encryption_secret: str = ""
    """Secret with the key of the backup."""
    conditions: Conditions = ()
    """The conditions of the object."""


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
