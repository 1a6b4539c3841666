"""Reports that this version of the operator takes no backups."""

from steersman import Context

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupStatus
from mysqlcluster.backups import NOT_SUPPORTED
from mysqlcluster.manager import operator


@operator.controller
async def reconcile(mysqlbackup: MySQLBackup, ctx: Context) -> MySQLBackupStatus:
    """Report the MySQLBackup as not supported: a backup that does not exist must not look like one that does."""
    return MySQLBackupStatus(
        phase="Failed", observed_generation=mysqlbackup.metadata.generation, conditions=NOT_SUPPORTED
    )
