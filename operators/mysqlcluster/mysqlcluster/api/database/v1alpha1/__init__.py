"""The kinds of `mysqlcluster.api.database.v1alpha1`."""

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.api.database.v1alpha1.mysqlswitchover_types import MySQLSwitchover

__all__ = [
    "MySQLBackup",
    "MySQLCluster",
    "MySQLSwitchover",
]
