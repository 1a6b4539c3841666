"""Writes of a cluster's status with an optimistic lock."""

from __future__ import annotations

from typing import TypeVar

from steersman import Context, JsonPatch, evolve
from steersman.client import NotFound
from steersman.models import to_dict

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, MySQLClusterStatus

__all__ = ["ClusterGoneError", "store_status"]

C = TypeVar("C", MySQLCluster, CompactCluster)


class ClusterGoneError(Exception):
    """The cluster was deleted during its reconcile, which ends."""


async def store_status(ctx: Context, cluster: C, status: MySQLClusterStatus) -> C:
    """Write the whole status, and return the stored cluster.

    The write carries the resourceVersion that was read. If two operators store the next step, only one succeeds.

    Raises:
        Conflict: The cluster has changed since it was read.
        ClusterGoneError: The cluster was deleted since then.
    """
    if status == cluster.status:
        return cluster
    version = cluster.metadata.resource_version
    patch = JsonPatch().replace("/metadata/resourceVersion", version).add("/status", to_dict(status))
    try:
        live = await ctx.patch(cluster, patch, subresource="status")
    except NotFound:
        raise ClusterGoneError(cluster.metadata.name) from None
    return evolve(cluster, {"status": status, "metadata.resource_version": live.metadata.resource_version})
