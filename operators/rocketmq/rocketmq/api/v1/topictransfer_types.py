"""The kind TopicTransfer: the move of a topic from one RocketMQ cluster to another, step by step."""

from datetime import datetime
from typing import Annotated, Literal

from steersman import CEL, Column, Conditions, Model, Resource
from steersman.models.markers import Format, MaxLength, MinLength

from rocketmq.api.v1.pods import Name

Phase = Literal["", "Prepare", "CopyGroups", "CreateTopic", "StopWrite", "Drain", "DeleteSource", "Done", "Undo"]
ClusterName = Annotated[str, MinLength(1), MaxLength(63)]


class TopicTransferSpec(Model):
    """The topic and the clusters."""

    __rules__ = (
        CEL(
            "self.sourceCluster != self.targetCluster",
            message="sourceCluster and targetCluster must differ",
            field_path=".targetCluster",
        ),
        CEL(
            "self.topic == oldSelf.topic && self.sourceCluster == oldSelf.sourceCluster"
            " && self.targetCluster == oldSelf.targetCluster",
            message="topic, sourceCluster and targetCluster cannot change: create another TopicTransfer",
        ),
    )
    topic: Annotated[str, MinLength(1), MaxLength(127)]
    """Name of the topic."""
    source_cluster: ClusterName
    """Name of the RocketMQ cluster that has the topic."""
    target_cluster: ClusterName
    """Name of the RocketMQ cluster that receives the topic."""
    name_service: Name = ""
    """Name of the NameService of both clusters. Default: the name of the source cluster."""
    delete_source: bool = False
    """Whether the topic is deleted from the source cluster after all messages are consumed."""
    undo: bool = False
    """Whether the steps of the transfer are reverted. This is possible until the source refuses messages."""


class TopicTransferStatus(Model):
    """The progress of a transfer."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: Phase = ""
    """The current step."""
    lag: Annotated[int, Format("int64")] | None = None
    """Number of messages on the source that are not consumed yet."""
    created: bool = False
    """Whether the transfer has created the topic on the target, so that `undo` may delete it."""
    permission: Annotated[int, Format("int32")] | None = None
    """Permission of the topic on the source before the transfer: 2 for writing, 4 for reading, 6 for both."""
    end: Annotated[int, Format("int64")] | None = None
    """Sum of the end offsets of the queues that are drained."""
    unchanged_since: datetime | None = None
    """Time since which no message has arrived in the queues that are drained."""
    conditions: Conditions = ()
    """The condition Complete."""


class TopicTransfer(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmqtt",),
    columns=(
        Column("Topic", "spec.topic"),
        Column("Source", "spec.source_cluster"),
        Column("Target", "spec.target_cluster"),
        Column("Phase", "status.phase"),
        Column("Lag", "status.lag"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """The move of a topic to another RocketMQ cluster."""

    spec: TopicTransferSpec
    status: TopicTransferStatus = TopicTransferStatus()
