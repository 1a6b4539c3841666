"""Brings the world in line with what every MySQLCluster asks for."""

from steersman import Context, ready_when

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, MySQLClusterStatus
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlcluster: MySQLCluster, ctx: Context) -> MySQLClusterStatus:
    """Called when a MySQLCluster or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return MySQLClusterStatus(
        observed_generation=mysqlcluster.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
