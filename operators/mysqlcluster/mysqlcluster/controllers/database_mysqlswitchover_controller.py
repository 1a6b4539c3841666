"""Brings the world in line with what every MySQLSwitchover asks for."""

from steersman import Context, ready_when

from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover, MySQLSwitchoverStatus
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlswitchover: MySQLSwitchover, ctx: Context) -> MySQLSwitchoverStatus:
    """Called when a MySQLSwitchover or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return MySQLSwitchoverStatus(
        observed_generation=mysqlswitchover.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
