"""The kind TopicTransfer: the move of a topic from one RocketMQ cluster to another, step by step."""

from datetime import datetime
from typing import Annotated, Literal

from steersman import CEL, Column, Conditions, Model, Resource
from steersman.models.markers import Format, MaxLength, MinLength

from rocketmq.api.v1.pods import Name

Phase = Literal["", "Prepare", "CopyGroups", "CreateTopic", "StopWrite", "Drain", "DeleteSource", "Done", "Undo"]
ClusterName = Annotated[str, MinLength(1), MaxLength(63)]


class TopicTransferSpec(Model):
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
    source_cluster: ClusterName
    target_cluster: ClusterName
    name_service: Name = ""
    """NameService that both clusters register with; the one with the name of the source cluster by default."""
    delete_source: bool = False
    """Delete the topic from the source cluster when it is drained."""
    undo: bool = False
    """Undo the steps of the transfer. Possible until writing to the source has stopped."""


class TopicTransferStatus(Model):
    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: Phase = ""
    lag: Annotated[int, Format("int64")] | None = None
    """Messages of the source that are not consumed yet."""
    created: bool = False
    """The target had no such topic before the transfer, so that `undo` may delete it."""
    permission: Annotated[int, Format("int32")] | None = None
    """What clients might do with the topic on the source before: 2 is writing, 4 reading, 6 both."""
    end: Annotated[int, Format("int64")] | None = None
    """Sum of the ends of the queues that are drained."""
    unchanged_since: datetime | None = None
    """Since when no message has come to the queues that are drained."""
    conditions: Conditions = ()
    """Complete."""


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
