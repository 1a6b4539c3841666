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
"""Settings that the operator makes of other fields."""


class BrokerPorts(Model):
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
    """Port of the members of the Controller, in mode CONTROLLER."""
    metrics: Port = 5557
    """Port of the broker's Prometheus endpoint."""


class Autoscaling(Model):
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
    min_groups: Annotated[int, Ge(1), Le(64)] | None = None
    max_groups: Annotated[int, Ge(1), Le(64)] | None = None
    target_put_tps: Annotated[int, Ge(1)] | None = None
    """Messages per second and group that the number of groups is chosen for."""
    target_disk_percent: Annotated[int, Ge(1), Le(95)] = 70
    """Use of the disk, on average, above which a group is added."""


class BrokerSpec(StoredFields):
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
    """Replicas beside the first member of each group; 2 or more, even, and fixed in mode DLEDGER."""
    cluster_mode: Literal["STATIC", "DLEDGER", "CONTROLLER"] = "DLEDGER"
    """How a master is elected: not at all (STATIC), by the members of the group, or by a Controller."""
    cluster_name: Annotated[str, MaxLength(63)] = ""
    """Name of the RocketMQ cluster; the name of the object by default."""
    replication_mode: Literal["SYNC", "ASYNC"] = "SYNC"
    """`ASYNC` acknowledges messages that only the master has, and loses them with it."""
    flush_disk_type: Literal["SYNC", "ASYNC"] = "ASYNC"
    """`SYNC` acknowledges messages that are on the disk."""
    in_sync_replicas: Annotated[int, Ge(1), Le(9)] | None = None
    """Members that have a message before it is acknowledged; 2 by default, 1 for groups of one and for ASYNC."""
    min_in_sync_replicas: Annotated[int, Ge(1), Le(9)] | None = None
    """Members in sync below which a group refuses messages; 2 with 3 or more members by default, else 1."""
    name_servers: Addresses = ()
    """Addresses of name servers outside; found through `nameService` by default."""
    name_service: Name = ""
    """NameService that the brokers register with; the one with the name of the Broker by default."""
    controller: Name = ""
    """Controller of mode CONTROLLER; the one with the name of the Broker by default."""
    broker_image: Image
    """Image of the broker."""
    allow_restart: bool = True
    """Restart brokers for changes that they cannot take over at run time."""
    scale_pod_name: Name = ""
    """Pod that the topics and subscription groups of a new group are copied from; by default a master."""
    config: Annotated[Mapping[str, Annotated[str, MaxLength(4096)]], MaxProperties(256)] = EMPTY
    """Settings of the broker. Some are changed at run time, the others by a rolling restart."""
    autoscaling: Autoscaling = Autoscaling()
    ports: BrokerPorts = BrokerPorts()


class DrainStatus(Model):
    offset: Annotated[int, Format("int64")] = -1
    """End of the master's commit log."""
    unchanged_since: datetime | None = None
    """Since when no message has come."""
    pending: Annotated[int, Format("int64")] | None = None
    """Messages that consumers have not read."""


class GroupStatus(Model):
    name: str
    master: str = ""
    epoch: int = 0
    """Increases with every change of the master."""
    in_sync: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    joined: bool = False
    """The topics and subscription groups of the other groups have been copied to it."""
    drain: DrainStatus | None = None
    """The progress of a group that leaves."""


class BrokerStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: str = ""
    groups: Annotated[tuple[GroupStatus, ...], MaxItems(64)] = ()
    name_servers: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    """Names of the Pods."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of groups, for the scale subresource."""
    selector: str = ""
    version: str = ""
    below_since: datetime | None = None
    """Since when autoscaling finds that fewer groups would be enough."""
    conditions: Conditions = ()
    """Available, MasterElected, InSync, ConfigApplied, NameServersReachable and Scaling."""


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
