"""The jobs that an archiver accepts, and its report.

The operator imports this module, and none of those that only the archiver and the agent need.
"""

from __future__ import annotations

import msgspec

from mysqlcluster.backup.catalog import BackupManifest

__all__ = [
    "AnyJob",
    "ArchiverState",
    "DeleteBackup",
    "Follow",
    "GapState",
    "Job",
    "JobFailure",
    "RunningJob",
    "TakeBackup",
    "VerifyBackup",
]


class Job(msgspec.Struct, frozen=True, kw_only=True, tag_field="job", rename="camel", forbid_unknown_fields=True):
    """The base of all requests to an archiver."""


class TakeBackup(Job, frozen=True, tag="TakeBackup"):
    """Write a full copy of a member to the target, unless the target already contains it."""

    name: str
    source: str
    attempt: int = 1
    """The number of the attempt, which a failure reports, so that failures of former attempts do not count."""


class VerifyBackup(Job, frozen=True, tag="VerifyBackup"):
    """Restore a backup into a scratch directory, start a server on it, and check every table."""

    name: str
    attempt: int = 1


class DeleteBackup(Job, frozen=True, tag="DeleteBackup"):
    """Delete a backup, and the segments that no other backup needs."""

    name: str


class Follow(Job, frozen=True, tag="Follow"):
    """Archive the binary log of this member."""

    source: str


AnyJob = TakeBackup | VerifyBackup | DeleteBackup | Follow


class JobFailure(msgspec.Struct, frozen=True, rename="camel"):
    """A job that failed."""

    job: str
    name: str
    attempt: int
    problem: str


class GapState(msgspec.Struct, frozen=True, rename="camel"):
    """A gap of the archive."""

    text: str
    after_time: float
    until_time: float


class RunningJob(msgspec.Struct, frozen=True, rename="camel"):
    """The job that runs."""

    job: str
    name: str


class ArchiverState(msgspec.Struct, frozen=True, rename="camel"):
    """What an archiver reports."""

    ready: bool
    """The archiver has read the objects of the target."""
    problem: str = ""
    """Why the archiver is not ready, or why the archive does not continue."""
    running: RunningJob | None = None
    backups: tuple[BackupManifest, ...] = ()
    failures: tuple[JobFailure, ...] = ()
    source: str = ""
    """The member whose binary log is archived."""
    recoverable_to: float = 0.0
    position: str = ""
    segments: int = 0
    gaps: tuple[GapState, ...] = ()
    token_revision: str = ""
    """The revision of the tokens that the archiver accepts."""
