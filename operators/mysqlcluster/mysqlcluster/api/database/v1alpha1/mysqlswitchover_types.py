"""The kind MySQLSwitchover: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

from steersman import Conditions, Model, Resource


class MySQLSwitchoverSpec(Model):
    """What a MySQLSwitchover asks for."""

    foo: str | None = None
    """An example: change or remove it."""


class MySQLSwitchoverStatus(Model):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """`Ready` is True when everything is as the spec asks for."""


class MySQLSwitchover(
    Resource,
    group="database.example.com",
    version="v1alpha1",
):
    """A MySQLSwitchover: say here what it is for."""

    spec: MySQLSwitchoverSpec
    status: MySQLSwitchoverStatus = MySQLSwitchoverStatus()
