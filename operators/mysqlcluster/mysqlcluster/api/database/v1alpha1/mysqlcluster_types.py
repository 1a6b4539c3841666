"""The kind MySQLCluster of database.example.com: a replicated database, and what the operator reports of it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from steersman import CEL, EMPTY, Column, Conditions, Ge, Le, Model, Resource, Scale, field
from steersman.models.markers import Format, MaxItems, MaxLength, MaxProperties, MinLength

Ratio = Annotated[float, Format("double"), Ge(0), Le(1)]
Seconds = Annotated[float, Format("double"), Ge(0)]
Name = Annotated[str, MaxLength(253)]


class FailoverPolicy(Model):
    """How the operator replaces a lost primary."""

    enabled: bool = True
    """Whether the operator replaces a lost primary by itself."""
    detection_seconds: Annotated[float, Format("double"), Ge(0.5), Le(600)] = 2.0
    """Seconds without a response of the primary after which it counts as lost."""
    min_interval_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """The shortest time between two failovers, in seconds."""
    max_lag_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """The longest time in seconds for the new primary to apply the received transactions."""


class ReplicationPolicy(Model):
    """How transactions reach the replicas."""

    ack_count: Annotated[int, Ge(0), Le(8)] | None = None
    """Number of replicas that acknowledge a transaction before its commit returns. Default: half of the size."""
    degrade_to_async: bool = False
    """Whether commits return with fewer acknowledgements while too few replicas are available. A failover then waits for the primary."""


class RejoinPolicy(Model):
    """How a former primary becomes a replica again."""

    errant_policy: Literal["Quarantine", "Reclone"] = "Quarantine"
    """The treatment of a member with transactions that the primary does not have: `Quarantine` does not let it join, `Reclone` replaces its data by a copy."""


class CanaryPolicy(Model):
    """How the first upgraded member is tested."""

    analysis_seconds: Annotated[int, Ge(0), Le(86400)] = 60
    """Seconds for which the canary is observed before the other members are upgraded."""
    max_error_rate: Ratio = 0.01
    """Share of failed probe queries, from 0 to 1, above which the analysis fails."""
    max_lag_seconds: Seconds = 10.0
    """Replication lag in seconds at the end of the analysis above which it fails."""
    auto_rollback: bool = True
    """Whether the canary is cloned again with the version before when the analysis fails."""


class UpdatePolicy(Model):
    """How members are upgraded to a new image."""

    strategy: Literal["Canary", "Rolling", "OnDelete"] = "Canary"
    """`Canary` observes one replica first, `Rolling` does not, `OnDelete` waits for the deletion of each Pod."""
    canary: CanaryPolicy = CanaryPolicy()
    """The analysis of the first upgraded member, for the strategy `Canary`."""


class Autoscaling(Model):
    """How the operator chooses the number of members."""

    __rules__ = (
        CEL("!self.enabled || (has(self.minSize) && has(self.maxSize))", message="minSize and maxSize are required"),
        CEL(
            "!has(self.minSize) || !has(self.maxSize) || self.minSize <= self.maxSize",
            message="minSize must not be greater than maxSize",
        ),
    )
    enabled: bool = False
    """Whether the operator chooses the size, from minSize to maxSize."""
    min_size: Annotated[int, Ge(1), Le(9)] | None = None
    """The smallest number of members."""
    max_size: Annotated[int, Ge(1), Le(9)] | None = None
    """The largest number of members."""
    target_connections_percent: Annotated[int, Ge(1), Le(100)] = 70
    """Average use of `max_connections` on the replicas, in percent, for which the size is chosen."""
    scale_down_stabilization_seconds: Annotated[int, Ge(0), Le(86400)] = 600
    """Seconds for which fewer members must suffice before one is removed."""


class S3Target(Model):
    """A bucket of an S3-compatible object store."""

    endpoint: Annotated[str, MaxLength(2048)] = ""
    """URL of the server. Default: Amazon S3 in the region."""
    bucket: Annotated[str, MinLength(3), MaxLength(63)]
    """Name of the bucket, which must exist."""
    prefix: Annotated[str, MaxLength(512)] = ""
    """Prefix of the keys of all objects."""
    region: Annotated[str, MaxLength(64)] = "us-east-1"
    """Region of the bucket."""
    credentials_secret: Annotated[str, MinLength(1), MaxLength(253)]
    """Secret with the keys `accessKeyId` and `secretAccessKey`."""


class PvcTarget(Model):
    """A volume for backups."""

    claim_name: Name = ""
    """Name of an existing PersistentVolumeClaim. If it is empty, the operator creates one."""
    size: Annotated[str, MaxLength(32)] = "10Gi"
    """Size of the volume that the operator creates, such as 10Gi."""
    class_name: Name = ""
    """StorageClass of the volume that the operator creates. Default: that of the cluster."""


class BackupTarget(Model):
    """The place of backups: a volume or a bucket."""

    __rules__ = (CEL("has(self.pvc) != has(self.s3)", message="exactly one of pvc and s3 is required"),)
    pvc: PvcTarget | None = None
    """A volume."""
    s3: S3Target | None = None
    """A bucket."""


class BackupPolicy(Model):
    """Scheduled backups and continuous archiving."""

    schedule: Annotated[str, MinLength(9), MaxLength(128)]
    """Schedule of full backups in cron format, in UTC."""
    keep: Annotated[int, Ge(1), Le(1000)] = 7
    """Number of full backups to keep."""
    continuous_binlog: bool = True
    """Whether the binary log is archived, for recovery to any second."""
    target: BackupTarget
    """The place of backups and archive."""
    encryption_secret: Name = ""
    """Secret with a key of 32 bytes in base64 at `key`, which encrypts backups and archive. Without it they are not encrypted."""


class RestorePoint(Model):
    """The state that is restored."""

    __rules__ = (CEL("!has(self.pointInTime) || !has(self.gtid)", message="pointInTime excludes gtid"),)
    point_in_time: Annotated[str, Format("date-time")] | None = None
    """Transactions that committed before this time are restored (RFC 3339)."""
    gtid: Annotated[str, MinLength(1), MaxLength(65536)] | None = None
    """The transactions of this GTID set are restored."""


class MetricsPolicy(Model):
    """Metrics of the servers."""

    enabled: bool = True
    """Whether an exporter runs beside each server."""


class MySQLClusterSpec(Model):
    """The desired state of a database cluster."""

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
    """Version or series, such as "11.8". A number is accepted: 8 means the series 8.0, which MySQL 9.7 replaces."""
    image: Annotated[str, MaxLength(1024)] = ""
    """Container image of the server. Default: the image of flavor and version."""
    flavor: Literal["mysql", "mariadb"] | None = None
    """`mysql` or `mariadb`. Default: `mariadb` if version or image name it, otherwise `mysql`."""
    port: Annotated[int, Ge(1), Le(65535)] = 3306
    """TCP port of the server and of the Services."""
    secret: Name = ""
    """Secret with the passwords of the accounts. If it is empty, the operator generates one."""
    storage: Any = None
    """Size of the volume of each member, such as 10Gi, or an object with size, className and autoGrow."""
    config: Annotated[Mapping[str, Annotated[str, MaxLength(4096)]], MaxProperties(256)] = EMPTY
    """Server variables by name. Dynamic variables are set at run time, others by a rolling restart."""
    from_backup: Name = ""
    """MySQLBackup from which a new cluster is restored. With `restore`, the name of its cluster is accepted."""
    restore: RestorePoint | None = None
    """The state to restore. Default: the end of the backup."""
    failover: FailoverPolicy = FailoverPolicy()
    """Failover."""
    replication: ReplicationPolicy = ReplicationPolicy()
    """Replication."""
    rejoin: RejoinPolicy = RejoinPolicy()
    """Return of former primaries."""
    update: UpdatePolicy = UpdatePolicy()
    """Upgrades."""
    autoscaling: Autoscaling = Autoscaling()
    """Autoscaling."""
    backup: BackupPolicy | None = None
    """Backups. Without it there are none."""
    metrics: MetricsPolicy = MetricsPolicy()
    """Metrics."""
    paused: bool = False
    """Whether the operator changes nothing and performs no failover."""


class QuorumStatus(Model):
    """The members whose acknowledgements count."""

    members: Annotated[tuple[str, ...], MaxItems(9)]
    """Members whose acknowledgements count."""
    acks: int
    """The least number of acknowledgements that each commit has waited for."""
    changing: bool = False
    """Whether the configuration changes. Then `members` and `acks` hold for the old and the new configuration."""
    baseline: str = ""
    """GTID set that enough members must have before the change ends; `-` is the empty set."""


class TransitionStatus(Model):
    """A change of the primary that is under way; every step is stored before it acts."""

    kind: str
    """Bootstrap, Recovery, Failover or Switchover."""
    from_: str = field(default="", name="from")
    """The primary before; empty when the cluster is new."""
    to: str = ""
    """The chosen primary; empty until the choice."""
    epoch: int
    """The epoch after the transition."""
    step: str
    """The current step: Suspect, Freeze, Fence, Apply, Initialize, Promote or Repoint."""
    started_at: str
    """Start of the transition (RFC 3339)."""
    reason: str = ""
    """The cause of the transition."""


class MemberStatus(Model):
    """A member of the cluster."""

    name: str
    """Name of the Pod."""
    role: str
    """The role of the member, such as primary or replica."""
    gtid: str = ""
    """The GTID set of its executed transactions."""
    lag_seconds: Annotated[float, Format("double")] | None = None
    """Replication lag in seconds."""
    version: str = ""
    """Version of the server."""
    errant: str = ""
    """The GTID set of transactions that this member has and the primary does not."""
    errant_confirmed: bool = False
    """Whether a second read has found the errant transactions, too."""


class BackupStatus(Model):
    """The state of backups and archive."""

    last_success: str = ""
    """End of the last completed backup (RFC 3339)."""
    recoverable_from: str = ""
    """The earliest time to which the cluster can be restored (RFC 3339)."""
    recoverable_to: str = ""
    """The latest time to which the cluster can be restored (RFC 3339)."""
    source: str = ""
    """The member whose binary log is archived."""
    last_scheduled: str = ""
    """The scheduled time of the last backup (RFC 3339)."""


class UpdateStatus(Model):
    """An upgrade; every step is stored before it acts."""

    image: str = ""
    """The image of the cluster; during an upgrade, the image before it."""
    target: str = ""
    """The image of the upgrade."""
    phase: str = "Idle"
    """Idle, Canary, Analysis, Rolling, RollingBack or Failed."""
    canary: str = ""
    """Name of the Pod that is upgraded first."""
    started_at: str = ""
    """Start of the current phase (RFC 3339)."""
    samples: int = 0
    """Number of probe queries of the canary."""
    errors: int = 0
    """Number of failed probe queries of the canary."""
    canary_seconds: Annotated[float, Format("double")] = 0.0
    """Sum of the durations of the probe queries of the canary, in seconds."""
    others_seconds: Annotated[float, Format("double")] = 0.0
    """Sum of the mean durations of the probe queries of the other members, in seconds."""
    sampled_at: str = ""
    """Time of the last probe queries (RFC 3339)."""
    message: str = ""
    """Explanation of the phase."""


class AutoscalingStatus(Model):
    """The state of the autoscaling of read replicas."""

    connections_percent: int = 0
    """Use of `max_connections` on the replicas, on average."""
    fewer_since: str = ""
    """Time since which fewer members have sufficed."""


class PasswordStatus(Model):
    """The passwords that all members use."""

    revision: str = ""
    """Hash of the passwords of the Secret."""
    changed_at: str = ""
    """Time at which the last member began to use them."""
    former_valid: bool = False
    """The accounts still accept the former passwords."""


class MySQLClusterStatus(Model):
    """The observed state of a database cluster."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    nodes: tuple[str, ...] = ()
    """Names of the Pods, sorted by ordinal."""
    phase: str = ""
    """Pending, Initializing, Restoring, Running, Degraded, Updating, SwitchingOver, FailingOver or Blocked."""
    primary: str = ""
    """Name of the Pod of the primary."""
    epoch: int = 0
    """A number that increases with every change of the primary. Members refuse requests of lower epochs."""
    transition: TransitionStatus | None = None
    """The change of the primary in progress."""
    quorum: QuorumStatus | None = None
    """The members that acknowledge commits; a failover needs enough of them."""
    last_failover: str = ""
    """Time of the last failover (RFC 3339)."""
    members: tuple[MemberStatus, ...] = ()
    """The members."""
    backup: BackupStatus | None = None
    """The state of backups and archive."""
    update: UpdateStatus | None = None
    """The state of the upgrade."""
    passwords: PasswordStatus | None = None
    """The rotation of passwords."""
    autoscaling: AutoscalingStatus | None = None
    """The autoscaling of read replicas."""
    current_version: str = ""
    """Version of the primary."""
    size: int | None = None
    """Number of members, for the scale subresource."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    conditions: Conditions = ()
    """The conditions of the object."""


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
