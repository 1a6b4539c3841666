"""Takes, verifies and deletes the full backups of database.example.com."""

from steersman import Context, Result
from steersman.k8s import Secret

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.backup.reconciler import delete_data, reconcile_backup
from mysqlcluster.manager import operator


@operator.controller(reads=[MySQLCluster, CompactCluster, MySQLBackupInstance, MySQLBackupSchedule, Secret])
async def reconcile(mysqlbackup: MySQLBackup, ctx: Context) -> Result:
    """Perform the next step of a backup, until it is completed or failed."""
    status, after = await reconcile_backup(mysqlbackup, ctx)
    return Result(status=status, requeue_after=after)


@operator.finalizer("database.example.com/backup-data")
async def delete(mysqlbackup: MySQLBackup, ctx: Context) -> Result:
    """Delete the data from the target."""
    return await delete_data(mysqlbackup, ctx)
