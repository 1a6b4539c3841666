"""Reports that this version of the operator takes no backups."""

from steersman import Context

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance, MySQLBackupInstanceStatus
from mysqlcluster.backups import NOT_SUPPORTED
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackupinstance: MySQLBackupInstance, ctx: Context) -> MySQLBackupInstanceStatus:
    """Report the MySQLBackupInstance as not supported: a backup that does not exist must not look like one that does."""
    return MySQLBackupInstanceStatus(
        status="Failed", observed_generation=mysqlbackupinstance.metadata.generation, conditions=NOT_SUPPORTED
    )
