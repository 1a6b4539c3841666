"""The kind RocketMQCluster: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

from steersman import Conditions, Model, Resource


class RocketMQClusterSpec(Model):
    """What a RocketMQCluster asks for."""

    foo: str | None = None
    """An example: change or remove it."""


class RocketMQClusterStatus(Model):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """`Ready` is True when everything is as the spec asks for."""


class RocketMQCluster(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
):
    """A RocketMQCluster: say here what it is for."""

    spec: RocketMQClusterSpec
    status: RocketMQClusterStatus = RocketMQClusterStatus()
