"""The kind RocketMQCluster: name servers, brokers, controller and console in one object."""

from steersman import CEL, Column, Conditions, Model, Resource

from rocketmq.api.v1.broker_types import BrokerSpec
from rocketmq.api.v1.console_types import ConsoleSpec
from rocketmq.api.v1.controller_types import ControllerSpec
from rocketmq.api.v1.nameservice_types import NameServiceSpec


class RocketMQClusterSpec(Model):
    """The parts of a RocketMQ cluster."""

    __rules__ = (
        CEL(
            "self.broker.clusterMode != 'CONTROLLER' || has(self.controller) || self.broker.controller != ''",
            message="mode CONTROLLER needs controller, or the name of one in broker.controller",
            field_path=".controller",
        ),
        CEL(
            "!has(self.controller) || self.broker.clusterMode != 'CONTROLLER' || self.broker.controller != ''"
            " || self.controller.port == self.broker.ports.controller",
            message="controller.port and broker.ports.controller must be the same port",
            field_path=".controller.port",
        ),
    )
    name_service: NameServiceSpec
    """The name servers."""
    broker: BrokerSpec
    """The brokers."""
    controller: ControllerSpec | None = None
    """The controllers, for brokers in mode CONTROLLER."""
    console: ConsoleSpec | None = None
    """The web console. Without it there is none."""


class RocketMQClusterStatus(Model):
    """The observed state of a RocketMQ cluster."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: str = ""
    """A summary of the conditions."""
    name_servers: tuple[str, ...] = ()
    """Addresses (host:port) of the name servers."""
    groups: int | None = None
    """Number of broker groups."""
    conditions: Conditions = ()
    """The conditions Available and NameServersReachable."""


class RocketMQCluster(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
    short_names=("rmq",),
    columns=(
        Column("Mode", "spec.broker.cluster_mode"),
        Column("Groups", "spec.broker.size"),
        Column("Phase", "status.phase"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A whole RocketMQ cluster."""

    __rules__ = (
        CEL(
            "size(self.metadata.name) <= 41",
            message="the name may have 41 characters: its children append to it, and 52 is the limit of StatefulSets",
        ),
    )

    spec: RocketMQClusterSpec
    status: RocketMQClusterStatus = RocketMQClusterStatus()
