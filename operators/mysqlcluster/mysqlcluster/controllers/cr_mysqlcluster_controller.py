"""Reconciles every MySQLCluster of cr.mysqloperator.grtl.github.com with its spec."""

from steersman import Context, Result, Watch, to_label
from steersman.k8s import ConfigMap, PersistentVolumeClaim, Pod, PodDisruptionBudget, Secret, Service, StatefulSet
from steersman.predicates import annotations_changed, generation_changed

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster as FullCluster
from mysqlcluster.manager import operator
from mysqlcluster.names import CLUSTER_LABEL
from mysqlcluster.reconciler import reconcile_cluster


@operator.controller(
    name="cr-mysqlcluster",
    owns=[StatefulSet, Service, ConfigMap, Secret, PodDisruptionBudget],
    reads=[FullCluster, PersistentVolumeClaim],
    watches=[Watch(Pod, to=to_label(CLUSTER_LABEL))],
    where=generation_changed | annotations_changed,
    workers=16,
)
async def reconcile(cluster: MySQLCluster, ctx: Context) -> Result:
    """Reconcile a cluster on every change, and after the delays that the state machine returns."""
    return await reconcile_cluster(cluster, ctx)
