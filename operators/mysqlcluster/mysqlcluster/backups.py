"""The state of backups: this version of the operator takes none, and its objects say so."""

from __future__ import annotations

from steersman import ready_when

__all__ = ["NOT_SUPPORTED"]

NOT_SUPPORTED = ready_when(
    False,
    reason="NotSupported",
    message="This version of the operator takes no backups and restores none. Use mariadb-backup in a Job of your own.",
)
"""The condition of every MySQLBackup, MySQLBackupSchedule and MySQLBackupInstance."""
