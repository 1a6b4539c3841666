"""The kinds of `mysqlcluster.api.cr.v1`."""

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule
from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster

__all__ = [
    "MySQLBackupInstance",
    "MySQLBackupSchedule",
    "MySQLCluster",
]
