"""The kind Broker: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

from steersman import Conditions, Model, Resource


class BrokerSpec(Model):
    """What a Broker asks for."""

    foo: str | None = None
    """An example: change or remove it."""


class BrokerStatus(Model):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """`Ready` is True when everything is as the spec asks for."""


class Broker(
    Resource,
    group="rocketmq.daocloud.io",
    version="v1",
):
    """A Broker: say here what it is for."""

    spec: BrokerSpec
    status: BrokerStatus = BrokerStatus()
