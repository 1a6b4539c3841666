"""Brings the world in line with what every MySQLBackupInstance asks for."""

from steersman import Context, ready_when

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance, MySQLBackupInstanceStatus
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackupinstance: MySQLBackupInstance, ctx: Context) -> MySQLBackupInstanceStatus:
    """Called when a MySQLBackupInstance or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return MySQLBackupInstanceStatus(
        observed_generation=mysqlbackupinstance.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
