"""The kind MySQLBackupInstance: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

from steersman import Conditions, Model, Resource


class MySQLBackupInstanceSpec(Model):
    """What a MySQLBackupInstance asks for."""

    foo: str | None = None
    """An example: change or remove it."""


class MySQLBackupInstanceStatus(Model):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """`Ready` is True when everything is as the spec asks for."""


class MySQLBackupInstance(
    Resource,
    group="cr.mysqloperator.grtl.github.com",
    version="v1",
):
    """A MySQLBackupInstance: say here what it is for."""

    spec: MySQLBackupInstanceSpec
    status: MySQLBackupInstanceStatus = MySQLBackupInstanceStatus()
