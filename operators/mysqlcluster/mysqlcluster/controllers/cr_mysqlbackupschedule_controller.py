"""Brings the world in line with what every MySQLBackupSchedule asks for."""

from steersman import Context, ready_when

from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule, MySQLBackupScheduleStatus
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackupschedule: MySQLBackupSchedule, ctx: Context) -> MySQLBackupScheduleStatus:
    """Called when a MySQLBackupSchedule or something it owns has changed, and again when it fails: it must bear being repeated.

    Write what should be with `ctx.apply(...)`, name the kinds in `owns=[...]` of the decorator, and return what is.
    """
    return MySQLBackupScheduleStatus(
        observed_generation=mysqlbackupschedule.metadata.generation,
        conditions=ready_when(True, message="there is nothing to do yet"),
    )
