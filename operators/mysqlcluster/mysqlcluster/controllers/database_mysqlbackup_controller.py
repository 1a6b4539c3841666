"""Brings the world in line with what every MySQLBackup asks for."""

from steersman import Context, ready_when

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupStatus
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackup: MySQLBackup, ctx: Context) -> MySQLBackupStatus:
    """Called when a MySQLBackup or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return MySQLBackupStatus(
        observed_generation=mysqlbackup.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
