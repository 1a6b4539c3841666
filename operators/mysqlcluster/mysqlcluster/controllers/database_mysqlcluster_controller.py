"""Reconciles every MySQLCluster of database.example.com with its spec."""

from steersman import Context, Key, Result, Watch, to_label
from steersman.k8s import ConfigMap, PersistentVolumeClaim, Pod, PodDisruptionBudget, Secret, Service, StatefulSet
from steersman.predicates import annotations_changed, generation_changed

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover
from mysqlcluster.connections import source_of_agents
from mysqlcluster.manager import operator
from mysqlcluster.names import CLUSTER_LABEL
from mysqlcluster.reconciler import SwitchRequest, reconcile_cluster
from mysqlcluster.switchovers import pending

OWNED = [StatefulSet, Service, ConfigMap, Secret, PodDisruptionBudget]

operator.permit("delete patch", Pod)
operator.permit("patch", PersistentVolumeClaim)
operator.permit("patch", MySQLCluster)


def cluster_of(request: MySQLSwitchover) -> Key:
    """Return the key of the cluster of a request."""
    return Key(request.metadata.namespace, request.spec.cluster)


@operator.controller(
    owns=OWNED,
    reads=[CompactCluster, PersistentVolumeClaim],
    watches=[Watch(Pod, to=to_label(CLUSTER_LABEL)), Watch(MySQLSwitchover, to=cluster_of)],
    where=generation_changed | annotations_changed,
    workers=16,
)
async def reconcile(cluster: MySQLCluster, ctx: Context) -> Result:
    """Reconcile a cluster on every change, and after the delays that the state machine returns."""
    request = pending(ctx.list(MySQLSwitchover), cluster)
    switch = SwitchRequest(request.spec.target or "*", request.spec.reason) if request else SwitchRequest()
    return await reconcile_cluster(cluster, ctx, switch)


@operator.on_shutdown
async def close_connections(ctx: Context) -> None:
    """Close the connections to the agents of all clusters."""
    await source_of_agents().close()
