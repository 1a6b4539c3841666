"""The kind MySQLBackupSchedule: what its users write, and what the operator reports. `make manifests` makes its CRD of it."""

from steersman import Conditions, Model, Resource


class MySQLBackupScheduleSpec(Model):
    """What a MySQLBackupSchedule asks for."""

    foo: str | None = None
    """An example: change or remove it."""


class MySQLBackupScheduleStatus(Model):
    """What the operator has seen and done."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """`Ready` is True when everything is as the spec asks for."""


class MySQLBackupSchedule(
    Resource,
    group="cr.mysqloperator.grtl.github.com",
    version="v1",
):
    """A MySQLBackupSchedule: say here what it is for."""

    spec: MySQLBackupScheduleSpec
    status: MySQLBackupScheduleStatus = MySQLBackupScheduleStatus()
