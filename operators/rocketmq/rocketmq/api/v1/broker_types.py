"""The kind Broker: groups of brokers that replicate messages, and what the operator reports of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from steersman import CEL, EMPTY, Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format, MaxItems, MaxLength, MaxProperties

from rocketmq.api.v1.pods import STORAGE_RULES, Addresses, Image, Name, Port, StoredFields

_PORTS = "[self.listen, self.listen - 2, self.ha, self.dledger, self.controller, self.metrics]"


RESERVED_KEYS = (
    "['brokerClusterName', 'brokerName', 'brokerId', 'brokerRole', 'brokerPermission', 'listenPort', 'haListenPort',"
    " 'namesrvAddr', 'storePathRootDir', 'storePathCommitLog', 'flushDiskType', 'inSyncReplicas', 'minInSyncReplicas',"
    " 'enableDLegerCommitLog', 'dLegerGroup', 'dLegerPeers', 'dLegerSelfId', 'enableControllerMode',"
    " 'controllerAddr', 'allAckInSyncStateSet', 'metricsExporterType', 'metricsPromExporterPort']"
)
"""Settings that the operator derives from other fields."""


class BrokerPorts(Model):
    """The TCP ports of a broker."""

    __rules__ = (
        CEL(
            f"{_PORTS}.all(port, {_PORTS}.exists_one(other, other == port))",
            message="listen, listen - 2 (the fast port), ha, dledger, controller and metrics must be six different ports",
        ),
    )
    listen: Annotated[int, Ge(3), Le(65535)] = 10911
    """Port for clients. The broker also listens on the port two below it, its fast port."""
    ha: Port = 10912
    """Port for the replication of modes STATIC and CONTROLLER."""
    dledger: Port = 40911
    """Port for the replication of mode DLEDGER."""
    controller: Port = 9878
    """Port of the members of the Controller, for mode CONTROLLER."""
    metrics: Port = 5557
    """Port of the broker's Prometheus endpoint."""


class Autoscaling(Model):
    """How the operator chooses the number of groups."""

    __rules__ = (
        CEL(
            "!self.enabled || (has(self.minGroups) && has(self.maxGroups))",
            message="minGroups and maxGroups are required",
        ),
        CEL(
            "!has(self.minGroups) || !has(self.maxGroups) || self.minGroups <= self.maxGroups",
            message="minGroups must not be greater than maxGroups",
        ),
    )
    enabled: bool = False
    """Whether the operator chooses the number of groups, from minGroups to maxGroups."""
    min_groups: Annotated[int, Ge(1), Le(64)] | None = None
    """The smallest number of groups."""
    max_groups: Annotated[int, Ge(1), Le(64)] | None = None
    """The largest number of groups."""
    target_put_tps: Annotated[int, Ge(1)] | None = None
    """Messages per second and group for which the number of groups is chosen."""
    target_disk_percent: Annotated[int, Ge(1), Le(95)] = 70
    """Average use of the disks, in percent, above which a group is added."""


class BrokerSpec(StoredFields):
    """The desired state of broker groups."""

    __rules__ = (
        *STORAGE_RULES,
        CEL(
            "self.clusterMode == oldSelf.clusterMode",
            message="the mode of existing data cannot change: create another Broker and move the topics to it",
            field_path=".clusterMode",
        ),
        CEL(
            "self.clusterMode != 'DLEDGER' || self.replicaPerGroup >= 2",
            message="a group of mode DLEDGER needs 3 or more members: set replicaPerGroup to 2 or 4",
            field_path=".replicaPerGroup",
        ),
        CEL(
            "self.clusterMode != 'DLEDGER' || self.replicaPerGroup < 2 || self.replicaPerGroup % 2 == 0",
            message="a group of mode DLEDGER needs an odd number of members: set replicaPerGroup to an even number",
            field_path=".replicaPerGroup",
        ),
        CEL(
            "!has(self.inSyncReplicas) || self.inSyncReplicas <= self.replicaPerGroup + 1",
            message="inSyncReplicas must not be greater than the members of a group, replicaPerGroup + 1",
            field_path=".inSyncReplicas",
        ),
        CEL(
            "!has(self.minInSyncReplicas) || self.minInSyncReplicas <= self.replicaPerGroup + 1",
            message="minInSyncReplicas must not be greater than the members of a group, replicaPerGroup + 1",
            field_path=".minInSyncReplicas",
        ),
        CEL(
            "!has(self.minInSyncReplicas) || !has(self.inSyncReplicas)"
            " || self.minInSyncReplicas <= self.inSyncReplicas",
            message="minInSyncReplicas must not be greater than inSyncReplicas",
            field_path=".minInSyncReplicas",
        ),
        CEL(
            "self.replicaPerGroup >= oldSelf.replicaPerGroup || self.replicaPerGroup + 1 >="
            " (has(oldSelf.minInSyncReplicas) ? oldSelf.minInSyncReplicas : (oldSelf.replicaPerGroup >= 2 ? 2 : 1))",
            message="the group would shrink below its minInSyncReplicas: lower minInSyncReplicas first, on its own",
            field_path=".replicaPerGroup",
        ),
        CEL(
            "self.clusterMode != 'DLEDGER' || self.replicaPerGroup == oldSelf.replicaPerGroup",
            message="a group of mode DLEDGER keeps its members: create another Broker and move the topics to it",
            field_path=".replicaPerGroup",
        ),
        CEL(
            f"!has(self.config) || !{RESERVED_KEYS}.exists(key, key in self.config)",
            message="config sets what other fields decide, such as brokerName, brokerRole or namesrvAddr: remove it",
            field_path=".config",
        ),
    )
    size: Annotated[int, Ge(1), Le(64)] = 1
    """Number of groups."""
    replica_per_group: Annotated[int, Ge(0), Le(8)] = 1
    """Number of replicas in each group, beside its first member. In mode DLEDGER it is even, at least 2, and cannot change."""
    cluster_mode: Literal["STATIC", "DLEDGER", "CONTROLLER"] = "DLEDGER"
    """The election of masters: none (STATIC), by the members of the group (DLEDGER), or by a Controller (CONTROLLER)."""
    cluster_name: Annotated[str, MaxLength(63)] = ""
    """Name of the RocketMQ cluster. Default: the name of the object."""
    replication_mode: Literal["SYNC", "ASYNC"] = "SYNC"
    """`SYNC` acknowledges a message when replicas have it. `ASYNC` acknowledges it before, so that it can be lost with the master."""
    flush_disk_type: Literal["SYNC", "ASYNC"] = "ASYNC"
    """`SYNC` acknowledges a message after it is written to the disk."""
    in_sync_replicas: Annotated[int, Ge(1), Le(9)] | None = None
    """Number of members that must have a message before it is acknowledged. Default: 2, or 1 for groups of one member and for ASYNC."""
    min_in_sync_replicas: Annotated[int, Ge(1), Le(9)] | None = None
    """Number of members in sync below which a group refuses messages. Default: 2 for groups of 3 or more members, otherwise 1."""
    name_servers: Addresses = ()
    """Addresses (host:port) of external name servers. Default: those of `nameService`."""
    name_service: Name = ""
    """Name of the NameService of the brokers. Default: the name of the Broker."""
    controller: Name = ""
    """Name of the Controller, for mode CONTROLLER. Default: the name of the Broker."""
    broker_image: Image
    """Container image of the broker."""
    allow_restart: bool = True
    """Whether brokers are restarted for changes that need it."""
    scale_pod_name: Name = ""
    """Name of the Pod whose topics and subscription groups are copied to a new group. Default: a master."""
    config: Annotated[Mapping[str, Annotated[str, MaxLength(4096)]], MaxProperties(256)] = EMPTY
    """Settings of the broker by name. Some are changed at run time, the others by a rolling restart."""
    autoscaling: Autoscaling = Autoscaling()
    """Autoscaling."""
    ports: BrokerPorts = BrokerPorts()
    """Ports of the brokers."""


class DrainStatus(Model):
    """The progress of the removal of a group."""

    offset: Annotated[int, Format("int64")] = -1
    """End of the master's commit log, in bytes."""
    unchanged_since: datetime | None = None
    """Time since which no message has arrived."""
    pending: Annotated[int, Format("int64")] | None = None
    """Number of messages that consumers have not read."""


class GroupStatus(Model):
    """A group of brokers."""

    name: str
    """Name of the group."""
    master: str = ""
    """Name of the Pod of the master."""
    epoch: int = 0
    """Increases with every change of the master."""
    in_sync: tuple[str, ...] = ()
    """Names of the Pods of the members in sync."""
    members: tuple[str, ...] = ()
    """Names of the Pods of the members."""
    joined: bool = False
    """Whether the topics and subscription groups of the other groups have been copied to this group."""
    drain: DrainStatus | None = None
    """The progress of the removal of this group."""


class BrokerStatus(Model):
    """The observed state of broker groups."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: str = ""
    """A summary of the conditions."""
    groups: Annotated[tuple[GroupStatus, ...], MaxItems(64)] = ()
    """The groups."""
    name_servers: tuple[str, ...] = ()
    """Addresses (host:port) of the name servers."""
    nodes: tuple[str, ...] = ()
    """Names of the Pods."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of groups, for the scale subresource."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    version: str = ""
    """Version of the brokers."""
    below_since: datetime | None = None
    """Time since which autoscaling considers fewer groups sufficient."""
    conditions: Conditions = ()
    """The conditions Available, MasterElected, InSync, ConfigApplied, NameServersReachable and Scaling."""


NAME_LENGTH = CEL(
    "size(self.metadata.name) <= 47",
    message="the name may have 47 characters: the StatefulSets of its members have longer names, and 52 is their limit",
)


class Broker(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmqb",),
    scale=Scale(spec="spec.size", status="status.size", selector="status.selector"),
    columns=(
        Column("Mode", "spec.cluster_mode"),
        Column("Groups", "spec.size"),
        Column("Phase", "status.phase"),
        Column("Version", "status.version", priority=1),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """Groups of RocketMQ brokers."""

    __rules__ = (NAME_LENGTH,)

    spec: BrokerSpec
    status: BrokerStatus = BrokerStatus()


def members_per_group(spec: BrokerSpec) -> int:
    """Return the number of members of each group."""
    return spec.replica_per_group + 1


def in_sync_replicas(spec: BrokerSpec) -> tuple[int, int]:
    """Return inSyncReplicas and minInSyncReplicas, with the defaults that depend on the number of members."""
    low = spec.min_in_sync_replicas
    if low is None:
        low = 2 if members_per_group(spec) >= 3 else 1
    # With 1, a master of mode STATIC acknowledges before its replicas have the message, even with SYNC.
    default = 2 if members_per_group(spec) >= 2 and spec.replication_mode == "SYNC" else 1
    return (max(low, default) if spec.in_sync_replicas is None else spec.in_sync_replicas, low)
