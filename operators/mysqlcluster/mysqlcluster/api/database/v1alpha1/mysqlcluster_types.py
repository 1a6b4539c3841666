"""The kind MySQLCluster of database.example.com: a replicated database, and what the operator reports of it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from steersman import CEL, EMPTY, Column, Conditions, Ge, Le, Model, Resource, Scale, field
from steersman.models.markers import Format, MaxItems, MaxLength, MaxProperties, MinLength

Ratio = Annotated[float, Format("double"), Ge(0), Le(1)]
Seconds = Annotated[float, Format("double"), Ge(0)]
Name = Annotated[str, MaxLength(253)]


class FailoverPolicy(Model):
    enabled: bool = True
    """Replace a lost primary without being asked."""
    detection_seconds: Annotated[float, Format("double"), Ge(0.5), Le(600)] = 2.0
    """How long the primary is unreachable before it counts as lost."""
    min_interval_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """Least time between two failovers, so that a cause that follows the primary does not wear down the cluster."""
    max_lag_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """Most time that the new primary may need to apply what it has received."""


class ReplicationPolicy(Model):
    ack_count: Annotated[int, Ge(0), Le(8)] | None = None
    """Replicas that acknowledge a transaction before its commit returns; half of the size by default."""
    degrade_to_async: bool = False
    """Commit with fewer acknowledgements while too few replicas are left. A failover waits for the primary then."""


class RejoinPolicy(Model):
    errant_policy: Literal["Quarantine", "Reclone"] = "Quarantine"
    """What happens to a member with transactions that the primary does not have."""


class CanaryPolicy(Model):
    analysis_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """How long the canary is observed before the other members follow."""
    max_error_rate: Ratio = 0.01
    """Share of probe queries that may fail."""
    max_lag_seconds: Seconds = 10.0
    """Replication lag that the canary may have at the end of the analysis."""
    auto_rollback: bool = True
    """Clone the canary again with the version before when the analysis fails."""


class UpdatePolicy(Model):
    strategy: Literal["Canary", "Rolling", "OnDelete"] = "Canary"
    """`Canary` observes one replica first, `Rolling` does not, `OnDelete` waits for the deletion of each Pod."""
    canary: CanaryPolicy = CanaryPolicy()


class Autoscaling(Model):
    __rules__ = (
        CEL("!self.enabled || (has(self.minSize) && has(self.maxSize))", message="minSize and maxSize are required"),
        CEL(
            "!has(self.minSize) || !has(self.maxSize) || self.minSize <= self.maxSize",
            message="minSize must not be greater than maxSize",
        ),
    )
    enabled: bool = False
    min_size: Annotated[int, Ge(1), Le(9)] | None = None
    """Least number of members."""
    max_size: Annotated[int, Ge(1), Le(9)] | None = None
    """Greatest number of members."""
    target_connections_percent: Annotated[int, Ge(1), Le(100)] = 70
    """Use of `max_connections` on the replicas, on average, that the size is chosen for."""
    scale_down_stabilization_seconds: Annotated[int, Ge(0), Le(86400)] = 600
    """How long fewer members must have sufficed before one is removed."""


class S3Target(Model):
    endpoint: Annotated[str, MaxLength(2048)] = ""
    """URL of the server."""
    bucket: Annotated[str, MinLength(3), MaxLength(63)]
    prefix: Annotated[str, MaxLength(512)] = ""
    region: Annotated[str, MaxLength(64)] = "us-east-1"
    credentials_secret: Annotated[str, MinLength(1), MaxLength(253)]
    """Secret with the keys `accessKeyId` and `secretAccessKey`."""


class PvcTarget(Model):
    claim_name: Name = ""
    """A PersistentVolumeClaim that exists; the operator creates one when it is empty."""
    size: Annotated[str, MaxLength(32)] = "10Gi"
    class_name: Name = ""


class BackupTarget(Model):
    __rules__ = (CEL("has(self.pvc) != has(self.s3)", message="exactly one of pvc and s3 is required"),)
    pvc: PvcTarget | None = None
    s3: S3Target | None = None


class BackupPolicy(Model):
    schedule: Annotated[str, MinLength(9), MaxLength(128)]
    """Time of full backups, in the format of CronJobs, in UTC."""
    keep: Annotated[int, Ge(1), Le(1000)] = 7
    """Full backups that are kept."""
    continuous_binlog: bool = True
    """Archive the binary log, for recovery to any second."""
    target: BackupTarget
    encryption_secret: Name = ""
    """Secret whose key `key` has 32 bytes in base64; backups and archive are encrypted with it. Empty: they are not."""


class RestorePoint(Model):
    __rules__ = (CEL("!has(self.pointInTime) || !has(self.gtid)", message="pointInTime excludes gtid"),)
    point_in_time: Annotated[str, Format("date-time")] | None = None
    """The last restored transaction committed before this time."""
    gtid: Annotated[str, MinLength(1), MaxLength(65536)] | None = None
    """The GTID set that is restored."""


class MetricsPolicy(Model):
    enabled: bool = True
    """Run the exporter beside each server."""


class MySQLClusterSpec(Model):
    __rules__ = (
        CEL(
            "!has(self.restore) || (has(self.fromBackup) && self.fromBackup != '')",
            message="restore needs fromBackup",
            field_path=".restore",
        ),
        CEL(
            "!has(self.replication) || !has(self.replication.ackCount) || self.replication.ackCount < self.size",
            message="ackCount must be smaller than size",
            field_path=".replication.ackCount",
        ),
        CEL(
            "!has(self.flavor) || self.flavor != 'mariadb' || !has(self.replication) || !has(self.replication.ackCount)"
            " || self.replication.ackCount <= 1",
            message="MariaDB waits for one acknowledgement at most",
            field_path=".replication.ackCount",
        ),
        CEL(
            "!has(self.flavor) || !has(oldSelf.flavor) || self.flavor == oldSelf.flavor",
            message="the flavor of existing data cannot change",
            field_path=".flavor",
        ),
    )
    size: Annotated[int, Ge(1), Le(9)] = 1
    """Number of members. An even number tolerates no more failures than the odd number below it."""
    version: Any = None
    """Version or series, such as "11.8"; a number is accepted, and 8 means the series 8.0."""
    image: Annotated[str, MaxLength(1024)] = ""
    """Container image of the server; follows from flavor and version by default."""
    flavor: Literal["mysql", "mariadb"] | None = None
    """`mariadb` for a version or image of MariaDB, `mysql` otherwise, by default."""
    port: Annotated[int, Ge(1), Le(65535)] = 3306
    secret: Name = ""
    """Secret with the passwords of the accounts; generated when empty."""
    storage: Any = None
    """Size of each member's volume, or an object with size, className and autoGrow."""
    config: Annotated[Mapping[str, Annotated[str, MaxLength(4096)]], MaxProperties(256)] = EMPTY
    """Server variables. Dynamic ones are set live, the others by a rolling restart."""
    from_backup: Name = ""
    """Backup that the data of a new cluster comes from; with `restore`, the name of its cluster will do."""
    restore: RestorePoint | None = None
    failover: FailoverPolicy = FailoverPolicy()
    replication: ReplicationPolicy = ReplicationPolicy()
    rejoin: RejoinPolicy = RejoinPolicy()
    update: UpdatePolicy = UpdatePolicy()
    autoscaling: Autoscaling = Autoscaling()
    backup: BackupPolicy | None = None
    metrics: MetricsPolicy = MetricsPolicy()
    paused: bool = False
    """The operator changes nothing and fails over to nothing while this is set."""


class QuorumStatus(Model):
    members: Annotated[tuple[str, ...], MaxItems(9)]
    """Members whose acknowledgements count."""
    acks: int
    """Acknowledgements that each commit has waited for at least."""
    changing: bool = False
    """The configuration changes; `members` and `acks` hold for the one before and the one after."""
    baseline: str = ""
    """GTID set that enough members must have before the change ends; `-` is the empty set."""


class TransitionStatus(Model):
    """A change of the primary that is under way; every step is stored before it acts."""

    kind: str
    from_: str = field(default="", name="from")
    """The primary before; empty when the cluster is new."""
    to: str = ""
    """The chosen primary; empty until the choice."""
    epoch: int
    step: str
    started_at: str
    reason: str = ""


class MemberStatus(Model):
    name: str
    role: str
    gtid: str = ""
    lag_seconds: Annotated[float, Format("double")] | None = None
    version: str = ""
    errant: str = ""
    """Transactions that this member has and the primary has not."""
    errant_confirmed: bool = False
    """A second reading has found them, too."""


class BackupStatus(Model):
    last_success: str = ""
    recoverable_from: str = ""
    recoverable_to: str = ""
    source: str = ""
    """The member whose binary log is archived."""
    last_scheduled: str = ""
    """Time of the schedule that the last backup was made for."""


class UpdateStatus(Model):
    """An upgrade; every step is stored before it acts."""

    image: str = ""
    """The image that the cluster runs, or ran before the upgrade that is under way."""
    target: str = ""
    phase: str = "Idle"
    """Idle, Canary, Analysis, Rolling, RollingBack or Failed."""
    canary: str = ""
    started_at: str = ""
    samples: int = 0
    """Probes of the canary."""
    errors: int = 0
    """Probes that failed."""
    canary_seconds: Annotated[float, Format("double")] = 0.0
    """Sum of the durations of the canary's probes."""
    others_seconds: Annotated[float, Format("double")] = 0.0
    """Sum of the mean durations of the other members' probes."""
    sampled_at: str = ""
    message: str = ""


class MySQLClusterStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    nodes: tuple[str, ...] = ()
    """Names of the Pods, sorted by ordinal."""
    phase: str = ""
    primary: str = ""
    epoch: int = 0
    """Increases with every change of the primary; members refuse requests of lower epochs."""
    transition: TransitionStatus | None = None
    quorum: QuorumStatus | None = None
    """The members that acknowledge commits; a failover needs enough of them."""
    last_failover: str = ""
    members: tuple[MemberStatus, ...] = ()
    backup: BackupStatus | None = None
    update: UpdateStatus | None = None
    current_version: str = ""
    size: int | None = None
    """Number of members, for the scale subresource."""
    selector: str = ""
    conditions: Conditions = ()


class MySQLCluster(
    Resource,
    group="database.example.com",
    version="v1alpha1",
    plural="mysqlclusters",
    short_names=("mysql",),
    categories=("all",),
    scale=Scale(spec="spec.size", status="status.size", selector="status.selector"),
    columns=(
        Column("Size", "spec.size"),
        Column("Phase", "status.phase"),
        Column("Primary", "status.primary"),
        Column("Epoch", "status.epoch", priority=1),
        Column("Version", "status.current_version"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A replicated MySQL or MariaDB database."""

    spec: MySQLClusterSpec = MySQLClusterSpec()
    status: MySQLClusterStatus = MySQLClusterStatus()
