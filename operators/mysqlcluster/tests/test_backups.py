"""Objects of backups say that they are not supported."""

from __future__ import annotations

import pytest

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance, MySQLBackupInstanceSpec
from mysqlcluster.api.cr.v1.mysqlbackupschedule_types import MySQLBackupSchedule, MySQLBackupScheduleSpec
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupSpec
from mysqlcluster.controllers import (
    cr_mysqlbackupinstance_controller,
    cr_mysqlbackupschedule_controller,
    database_mysqlbackup_controller,
)

CASES = {
    "backup": (database_mysqlbackup_controller, MySQLBackup(spec=MySQLBackupSpec(cluster="a"))),
    "instance": (cr_mysqlbackupinstance_controller, MySQLBackupInstance(spec=MySQLBackupInstanceSpec(cluster="a"))),
    "schedule": (
        cr_mysqlbackupschedule_controller,
        MySQLBackupSchedule(spec=MySQLBackupScheduleSpec(cluster="a", time="0 3 * * *", storage="1Gi")),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_backup_that_is_not_taken_does_not_look_like_one(case: str):
    module, obj = CASES[case]
    status = await module.reconcile(obj, None)
    assert [(each.type, each.status, each.reason) for each in status.conditions] == [("Ready", "False", "NotSupported")]
