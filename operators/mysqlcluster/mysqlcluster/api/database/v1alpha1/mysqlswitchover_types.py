"""The kind MySQLSwitchover: a planned change of the primary."""

from typing import Annotated

from steersman import CEL, Column, Conditions, Model, Resource
from steersman.models.markers import MaxLength, MinLength


class MySQLSwitchoverSpec(Model):
    """The cluster and the new primary."""

    __rules__ = (CEL("self == oldSelf", message="a switchover cannot change; create another one"),)
    cluster: Annotated[str, MinLength(1), MaxLength(253)]
    """Name of the MySQLCluster in this namespace."""
    target: Annotated[str, MaxLength(253)] = ""
    """Name of the Pod that becomes the primary. Default: the replica with the least lag."""
    reason: Annotated[str, MaxLength(1024)] = ""
    """A text for the Events of the cluster."""


class MySQLSwitchoverStatus(Model):
    """The progress and the result of a switchover."""

    observed_generation: int = 0
    """The generation of the spec that this status describes."""
    phase: str = ""
    """Pending, Running, Completed or Refused."""
    message: str = ""
    """Explanation of the phase."""
    primary: str = ""
    """The primary after the switchover."""
    epoch: int | None = None
    """The epoch of the cluster after the switchover."""
    conditions: Conditions = ()
    """The conditions of the object."""


class MySQLSwitchover(
    Resource,
    group="database.example.com",
    version="v1alpha1",
    plural="mysqlswitchovers",
    short_names=("myso",),
    columns=(
        Column("Cluster", "spec.cluster"),
        Column("Target", "spec.target"),
        Column("Phase", "status.phase"),
        Column("Primary", "status.primary"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A request to move the primary of a MySQLCluster to another member."""

    spec: MySQLSwitchoverSpec
    status: MySQLSwitchoverStatus = MySQLSwitchoverStatus()
