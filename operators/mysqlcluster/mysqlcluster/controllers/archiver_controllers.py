"""Controllers of the archivers of clusters of either API group that have backups or are restored from one."""

from steersman import Context, Result
from steersman.k8s import ConfigMap, PersistentVolumeClaim, Secret, Service, StatefulSet
from steersman.predicates import generation_changed

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.backup.reconciler import reconcile_archiver
from mysqlcluster.manager import operator

OWNED = [StatefulSet, Service, ConfigMap]
READ = [Secret, PersistentVolumeClaim, MySQLBackup, MySQLBackupInstance, MySQLBackupSchedule]

operator.permit("create", PersistentVolumeClaim)
operator.permit("create delete", MySQLBackup)


@operator.controller(name="archiver", owns=OWNED, reads=[*READ, CompactCluster, MySQLCluster], where=generation_changed)
async def reconcile(cluster: MySQLCluster, ctx: Context) -> Result:
    """Reconcile the archiver of a MySQLCluster of database.example.com."""
    return await reconcile_archiver(cluster, ctx)


@operator.controller(
    name="cr-archiver", owns=OWNED, reads=[*READ, MySQLCluster, CompactCluster], where=generation_changed
)
async def reconcile_compact(cluster: CompactCluster, ctx: Context) -> Result:
    """Reconcile the archiver of a MySQLCluster of cr.mysqloperator.grtl.github.com."""
    return await reconcile_archiver(cluster, ctx)
