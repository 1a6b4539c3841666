"""Requests for switchovers: the next request, and the status of each. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from steersman import replace

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, MySQLClusterStatus
from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover, MySQLSwitchoverStatus

__all__ = ["ENDED", "outcome", "pending"]

ENDED = ("Completed", "Refused")


def pending(requests: Iterable[MySQLSwitchover], cluster: MySQLCluster) -> MySQLSwitchover | None:
    """Return the oldest accepted request for a cluster, as soon as its epoch is recorded."""
    waiting = [
        each
        for each in requests
        if each.spec.cluster == cluster.metadata.name
        and each.status.phase == "Running"
        and each.status.epoch == cluster.status.epoch
        and each.metadata.deletion_timestamp is None
    ]
    return min(waiting, key=_age, default=None)


def _age(request: MySQLSwitchover) -> tuple[str, str]:
    return (str(request.metadata.creation_timestamp), request.metadata.name)


def outcome(request: MySQLSwitchover, cluster: MySQLCluster | None) -> MySQLSwitchoverStatus:
    """Return the next status of a request.

    The operator accepts a request in an epoch; the request ends when a later epoch begins. So it moves the primary at
    most once, even if the operator restarts.
    """
    status = replace(request.status, observed_generation=request.metadata.generation)
    if status.phase in ENDED:
        return status
    if cluster is None:
        return replace(status, phase="Refused", message=f"there is no MySQLCluster {request.spec.cluster}")
    if not cluster.status.primary:
        return replace(status, phase="Pending", message="the cluster has no primary yet")
    if status.phase != "Running":
        return _accepted(request, cluster.status, status)
    if cluster.status.epoch == status.epoch:
        return status
    if cluster.status.transition is not None:
        return status
    primary = cluster.status.primary
    if request.spec.target in ("", primary):
        return replace(status, phase="Completed", primary=primary, message=f"{primary} is the primary")
    return replace(status, phase="Refused", primary=primary, message=f"{primary} is the primary after another change")


def _accepted(
    request: MySQLSwitchover, cluster: MySQLClusterStatus, status: MySQLSwitchoverStatus
) -> MySQLSwitchoverStatus:
    target = request.spec.target
    if target == cluster.primary:
        message = f"{target} is the primary already"
        return replace(status, phase="Completed", primary=target, message=message)
    if target and target not in cluster.nodes:
        message = f"spec.target: {target} is not a member; the members are {', '.join(cluster.nodes)}"
        return replace(status, phase="Refused", message=message)
    if cluster.transition is not None:
        return replace(status, phase="Pending", message="another change of the primary is under way")
    return replace(status, phase="Running", epoch=cluster.epoch, message="")
