"""Ownership of the children: a cluster of each API group with one name would share all child objects.

The owner of the StatefulSet, or of the ConfigMap that is created first, keeps the names. If neither exists, the older
cluster gets them. The other cluster writes nothing but its status, which reports the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from steersman import Context
from steersman.client import AlreadyExists
from steersman.controller import controller_of
from steersman.k8s import ConfigMap, StatefulSet

from mysqlcluster import names
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.desired import AnyCluster

__all__ = ["ClaimError", "claim", "obstacle"]


class ClaimError(Exception):
    """Another object owns the children of a cluster; the message names it and the solution."""


def obstacle(cluster: AnyCluster, children: Sequence[StatefulSet | ConfigMap], rival: AnyCluster | None) -> str:
    """Return why a cluster must not change the children with its name; empty if it owns them.

    Args:
        cluster: The cluster.
        children: The children that exist, the StatefulSet first.
        rival: The cluster of the other API group with the same name, if there is one.
    """
    for child in children:
        owner = controller_of(child)
        if owner is not None and owner.uid == cluster.metadata.uid:
            return ""
        if owner is not None:
            group = owner.api_version.partition("/")[0]
            return _refusal(
                cluster, f"{_kind(child)} {child.metadata.name} belongs to {owner.kind}.{group} {owner.name}"
            )
        if child.metadata.labels.get(names.CLUSTER_LABEL) != cluster.metadata.name:
            return _refusal(cluster, f"{_kind(child)} {child.metadata.name} exists and was not made by this operator")
    if rival is not None and _age(rival) < _age(cluster):
        group = "cr.mysqloperator.grtl.github.com" if isinstance(rival, CompactCluster) else "database.example.com"
        return _refusal(cluster, f"the older MySQLCluster.{group} {rival.metadata.name} has the same name")
    return ""


def _refusal(cluster: AnyCluster, reason: str) -> str:
    return f"metadata.name: {cluster.metadata.name!r}: {reason}; give this cluster another name, or delete the other object"


def _kind(child: StatefulSet | ConfigMap) -> str:
    return "StatefulSet" if isinstance(child, StatefulSet) else "ConfigMap"


def _age(cluster: AnyCluster) -> tuple[str, str]:
    return (str(cluster.metadata.creation_timestamp), cluster.metadata.uid)


async def claim(cluster: AnyCluster, first: ConfigMap, ctx: Context) -> None:
    """Ensure that a cluster owns the children with its name, before any other write.

    Args:
        cluster: The cluster.
        first: The ConfigMap, which is created if the cluster has no children yet. If two clusters create it
            concurrently, one succeeds.
        ctx: The context of the reconcile.

    Raises:
        ClaimError: Another object owns them.
    """
    found = (ctx.get(StatefulSet, cluster.metadata.name), ctx.get(ConfigMap, first.metadata.name))
    children = [child for child in found if child is not None]
    other = CompactCluster if isinstance(cluster, MySQLCluster) else MySQLCluster
    # The cache of the other kind may not contain the older object yet.
    rival = None if children else await ctx.fetch(other, cluster.metadata.name)
    problem = obstacle(cluster, children, rival)
    if problem:
        raise ClaimError(problem)
    if not children:
        try:
            await ctx.create(first)
        except AlreadyExists:
            raise ClaimError(
                _refusal(cluster, f"ConfigMap {first.metadata.name} was created by another object")
            ) from None
