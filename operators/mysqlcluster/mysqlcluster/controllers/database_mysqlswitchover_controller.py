"""Accepts requests for switchovers, and reports their results."""

from steersman import Context, Key, Result, Watch, key_of

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover
from mysqlcluster.manager import operator
from mysqlcluster.switchovers import ENDED, outcome

POLL_SECONDS = 1.0
"""Time until the next reconcile of an unfinished request."""


def requests_of(cluster: MySQLCluster, ctx: Context) -> list[Key]:
    """Return the keys of the requests for a cluster."""
    return [key_of(each) for each in ctx.list(MySQLSwitchover) if each.spec.cluster == cluster.metadata.name]


@operator.controller(watches=[Watch(MySQLCluster, to=requests_of)])
async def reconcile(request: MySQLSwitchover, ctx: Context) -> Result:
    """Update the status of a request until it is done or refused."""
    status = outcome(request, ctx.get(MySQLCluster, request.spec.cluster))
    if status.phase == "Refused" and request.status.phase != "Refused":
        ctx.event("SwitchoverRefused", status.message, type="Warning", action="Switchover")
    return Result(status=status, requeue_after=None if status.phase in ENDED else POLL_SECONDS)
