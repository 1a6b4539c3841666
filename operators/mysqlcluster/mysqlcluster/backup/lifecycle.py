"""The phases of a full backup, as a pure function: the status is stored before the job of its phase is sent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from steersman import ready_when, replace

from mysqlcluster.api.cr.v1.mysqlbackupinstance_types import MySQLBackupInstance
from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupStatus
from mysqlcluster.backup.catalog import BackupManifest
from mysqlcluster.backup.protocol import ArchiverState, Job, TakeBackup, VerifyBackup

__all__ = ["ENDED", "KEEP", "MAX_ATTEMPTS", "Facts", "Step", "advance", "surplus"]

ENDED = ("Completed", "Failed")
MAX_ATTEMPTS = 3
KEEP = 7
"""Number of backups that are kept by default."""

B = TypeVar("B", MySQLBackup, MySQLBackupInstance)


class Facts(NamedTuple):
    """The inputs of the decision about a backup."""

    archiver: ArchiverState | None
    """`None` if the archiver does not answer."""
    member: str
    """The member that a backup is taken from; empty if there is none."""
    problem: str = ""
    """Why no backup can be taken; empty if it can."""


class Step(NamedTuple):
    """The next status, or the job to send if the status is already stored."""

    status: MySQLBackupStatus
    job: Job | None = None


def advance(name: str, status: MySQLBackupStatus, facts: Facts) -> Step:
    """Return the next step of the backup `name`."""
    if status.phase in ENDED:
        return Step(status)
    if facts.problem:
        return Step(replace(status, phase=status.phase or "Pending", message=facts.problem))
    archiver = facts.archiver
    if archiver is None or not archiver.ready:
        message = archiver.problem if archiver else "the archiver does not answer yet"
        return Step(replace(status, phase=status.phase or "Pending", message=message))
    manifest = next((each for each in archiver.backups if each.name == name), None)
    if manifest is not None and manifest.verified:
        return Step(_completed(status, manifest))
    if manifest is not None and status.phase != "Verifying":
        return Step(replace(status, phase="Verifying", attempt=1, message="", size=manifest.size))
    if status.phase not in ("Running", "Verifying"):
        if not facts.member:
            return Step(replace(status, phase="Pending", message="no member can be copied now"))
        return Step(replace(status, phase="Running", attempt=1, source=facts.member, message=""))
    if archiver.running is not None and archiver.running.name == name:
        return Step(status)
    job: TakeBackup | VerifyBackup
    if status.phase == "Running":
        job = TakeBackup(name=name, source=status.source, attempt=status.attempt)
    else:
        job = VerifyBackup(name=name, attempt=status.attempt)
    kind = type(job).__name__
    for failure in archiver.failures:
        if (failure.job, failure.name, failure.attempt) == (kind, name, status.attempt):
            return Step(_failed(status, failure.problem, facts.member))
    return Step(status, job)


def surplus(backups: Iterable[B], keep: int) -> tuple[B, ...]:
    """Return the backups to delete: all except the newest `keep` completed and the newest `keep` failed ones."""
    ended = sorted(
        (each for each in backups if each.status.phase in ENDED and each.metadata.deletion_timestamp is None),
        key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name),
        reverse=True,
    )
    completed = [each for each in ended if each.status.phase == "Completed"]
    failed = [each for each in ended if each.status.phase == "Failed"]
    return (*completed[keep:], *failed[keep:])


def _failed(status: MySQLBackupStatus, problem: str, member: str) -> MySQLBackupStatus:
    if status.attempt < MAX_ATTEMPTS:
        source = member if status.phase == "Running" and member else status.source
        return replace(status, attempt=status.attempt + 1, source=source, message=problem)
    conditions = ready_when(False, reason="BackupFailed", message=problem)
    return replace(status, phase="Failed", message=problem, conditions=conditions)


def _completed(status: MySQLBackupStatus, manifest: BackupManifest) -> MySQLBackupStatus:
    return replace(
        status,
        phase="Completed",
        message="",
        source=manifest.source,
        gtid=manifest.position,
        binlog=manifest.position,
        size=manifest.size,
        checksum=f"sha256:{manifest.sha256}",
        verified=True,
        completed_at=datetime.fromtimestamp(manifest.ended, UTC).isoformat().replace("+00:00", "Z"),
        conditions=ready_when(True, reason="Verified", message="a scratch restore has succeeded"),
    )
