"""The kind Controller: the quorum that chooses the masters of Brokers in mode CONTROLLER."""

from collections.abc import Mapping
from typing import Annotated

from steersman import CEL, EMPTY, Column, Conditions, Ge, Le, Model, Resource, Scale
from steersman.models.markers import Format, MaxLength, MaxProperties

from rocketmq.api.v1.pods import STORAGE_RULES, Image, Port, StoredFields

RESERVED_KEYS = (
    "['controllerDLegerGroup', 'controllerDLegerPeers', 'controllerDLegerSelfId', 'controllerStorePath', 'listenPort',"
    " 'enableElectUncleanMaster', 'notifyBrokerRoleChanged']"
)
"""Settings that the operator makes of other fields, or that would lose messages."""


class ControllerSpec(StoredFields):
    """The desired state of a controller quorum."""

    __rules__ = (
        *STORAGE_RULES,
        CEL(
            f"!has(self.config) || !{RESERVED_KEYS}.exists(key, key in self.config)",
            message="config sets what the operator decides, such as listenPort or enableElectUncleanMaster, which loses"
            " messages: remove it",
            field_path=".config",
        ),
        CEL(
            "self.size % 2 == 1",
            message="a Controller needs an odd number of members: 1, 3, 5, 7 or 9",
            field_path=".size",
        ),
        CEL(
            "self.size >= oldSelf.size",
            message="fewer members may not know every master that was chosen: create another Controller",
            field_path=".size",
        ),
    )
    size: Annotated[int, Ge(1), Le(9)] = 3
    """Number of members. It is odd and cannot decrease."""
    controller_image: Image
    """Container image of the controller."""
    port: Port = 9878
    """TCP port for brokers and for the other members."""
    config: Annotated[Mapping[str, Annotated[str, MaxLength(4096)]], MaxProperties(64)] = EMPTY
    """Settings of the controller by name."""


class ControllerStatus(Model):
    """The observed state of a controller quorum."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    leader: str = ""
    """Name of the Pod of the leader."""
    nodes: tuple[str, ...] = ()
    """Names of the Pods."""
    size: Annotated[int, Format("int32")] | None = None
    """Number of members, for the scale subresource."""
    selector: str = ""
    """Label selector of the Pods, for the scale subresource."""
    conditions: Conditions = ()
    """The conditions Available and LeaderElected."""


class Controller(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmqctl",),
    scale=Scale(spec="spec.size", status="status.size", selector="status.selector"),
    columns=(
        Column("Size", "spec.size"),
        Column("Leader", "status.leader"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """The controllers of RocketMQ brokers."""

    __rules__ = (
        CEL(
            "size(self.metadata.name) <= 41",
            message="the name may have 41 characters: the StatefulSet appends -controller, and 52 is its limit",
        ),
    )

    spec: ControllerSpec
    status: ControllerStatus = ControllerStatus()
