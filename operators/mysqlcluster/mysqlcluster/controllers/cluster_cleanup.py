"""Removal of the operator's in-memory state of deleted clusters."""

from steersman import ALL_NAMESPACES, Context, key_of

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.backup.reconciler import BINLOGS
from mysqlcluster.connections import source_of_agents
from mysqlcluster.gauges import GAUGES
from mysqlcluster.manager import operator

INTERVAL_SECONDS = 60.0


@operator.timer(INTERVAL_SECONDS, reads=[MySQLCluster, CompactCluster])
async def forget_clusters(ctx: Context) -> None:
    """Remove the metrics of deleted clusters, and close the connections to their agents."""
    known = {
        key_of(each) for kind in (MySQLCluster, CompactCluster) for each in ctx.list(kind, namespace=ALL_NAMESPACES)
    }
    await source_of_agents().keep(known)
    for key in GAUGES.keep(known):
        BINLOGS.forget(key)
        ctx.log.info("cluster_forgotten", cluster=f"{key.namespace}/{key.name}", reason="it is deleted")
