"""The controllers of the operator. Importing this package declares them."""

from mysqlcluster.controllers import (
    archiver_controllers,
    cluster_cleanup,
    cr_mysqlbackupinstance_controller,
    cr_mysqlbackupschedule_controller,
    cr_mysqlcluster_controller,
    database_mysqlbackup_controller,
    database_mysqlcluster_controller,
    database_mysqlswitchover_controller,
)

__all__ = [
    "archiver_controllers",
    "cluster_cleanup",
    "cr_mysqlbackupinstance_controller",
    "cr_mysqlbackupschedule_controller",
    "cr_mysqlcluster_controller",
    "database_mysqlbackup_controller",
    "database_mysqlcluster_controller",
    "database_mysqlswitchover_controller",
]
