"""Which cluster owns the children of a name: clusters of both forms with one name would share all of them.

The owner of the StatefulSet, or of the ConfigMap that is created before everything else, keeps the name. Without such
children the older cluster gets it. The other cluster changes nothing and reports why.
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
    """The names of a cluster's children belong to another object; the message says which one, and what to do."""


def obstacle(cluster: AnyCluster, children: Sequence[StatefulSet | ConfigMap], rival: AnyCluster | None) -> str:
    """Return why a cluster must not touch the children of its name; empty if they are its own.

    Args:
        cluster: The cluster.
        children: The children that exist, the StatefulSet first.
        rival: The cluster of the other form with the same name, if there is one.
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
    """Make sure that the children of a cluster's name are its own, before anything else is written.

    Args:
        cluster: The cluster.
        first: The ConfigMap, which is created if the cluster has no children yet. Of two clusters that try at the same
            time, one creates it.
        ctx: The context of the reconcile.

    Raises:
        ClaimError: They belong to another object.
    """
    found = (ctx.get(StatefulSet, cluster.metadata.name), ctx.get(ConfigMap, first.metadata.name))
    children = [child for child in found if child is not None]
    other = CompactCluster if isinstance(cluster, MySQLCluster) else MySQLCluster
    # The cache of the other kind may lack an object that is older than this one.
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
