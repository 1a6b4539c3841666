"""Reports that this version of the operator takes no backups."""

from steersman import Context

from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule, MySQLBackupScheduleStatus
from mysqlcluster.backups import NOT_SUPPORTED
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackupschedule: MySQLBackupSchedule, ctx: Context) -> MySQLBackupScheduleStatus:
    """Report the MySQLBackupSchedule as not supported: a backup that does not exist must not look like one that does."""
    return MySQLBackupScheduleStatus(
        observed_generation=mysqlbackupschedule.metadata.generation, conditions=NOT_SUPPORTED
    )
