"""Takes, verifies and deletes the full backups of cr.mysqloperator.grtl.github.com."""

from steersman import Context, Result, replace
from steersman.k8s import Secret

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance, MySQLBackupInstanceStatus
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.backup.reconciler import delete_data, reconcile_backup
from mysqlcluster.manager import operator

STATUS = {"Pending": "Scheduled", "Running": "Started", "Verifying": "Started"}
"""The names of phases that differ in this API group."""


@operator.controller(reads=[MySQLBackupInstance, MySQLBackupSchedule, MySQLCluster, CompactCluster, Secret])
async def reconcile(instance: MySQLBackupInstance, ctx: Context) -> Result:
    """Perform the next step of a backup, until it is completed or failed."""
    status, after = await reconcile_backup(instance, ctx)
    assert isinstance(status, MySQLBackupInstanceStatus)
    return Result(status=replace(status, status=STATUS.get(status.phase, status.phase)), requeue_after=after)


@operator.finalizer("database.example.com/backup-data")
async def delete(instance: MySQLBackupInstance, ctx: Context) -> Result:
    """Delete the data from the target."""
    return await delete_data(instance, ctx)
