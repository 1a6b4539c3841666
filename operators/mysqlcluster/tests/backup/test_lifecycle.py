"""Phases of a backup, times of schedules, and the choice of the member to read. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from steersman import ObjectMeta

from mysqlcluster.api.database.v1alpha1.mysqlbackup_types import MySQLBackup, MySQLBackupSpec, MySQLBackupStatus
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MemberStatus, MySQLClusterStatus
from mysqlcluster.backup.catalog import BackupManifest
from mysqlcluster.backup.lifecycle import Facts, advance, surplus
from mysqlcluster.backup.protocol import ArchiverState, JobFailure, RunningJob, TakeBackup, VerifyBackup
from mysqlcluster.backup.schedules import ScheduleError, due, name_at
from mysqlcluster.backup.setup import member_to_read

IDLE = ArchiverState(ready=True)
DATA = BackupManifest("one", "db-1", 1.0, 2.0, "", 10, "abc")
VERIFIED = BackupManifest("one", "db-1", 1.0, 2.0, "", 10, "abc", position="0-1-5", verified=3.0)


def failed(job: str, attempt: int) -> ArchiverState:
    return ArchiverState(ready=True, failures=(JobFailure(job, "one", attempt, "the agent broke off"),))


def test_a_job_is_sent_only_when_its_phase_is_stored():
    first = advance("one", MySQLBackupStatus(), Facts(IDLE, "db-1"))
    assert (first.status.phase, first.status.source, first.status.attempt, first.job) == ("Running", "db-1", 1, None)
    again = advance("one", first.status, Facts(IDLE, "db-2"))
    assert again == (first.status, TakeBackup(name="one", source="db-1", attempt=1))


def test_a_job_that_runs_is_not_sent_again():
    running = ArchiverState(ready=True, running=RunningJob("TakeBackup", "one"))
    status = MySQLBackupStatus(phase="Running", source="db-1", attempt=1)
    assert advance("one", status, Facts(running, "db-1")) == (status, None)


def test_a_restarted_operator_goes_on_with_what_the_target_has():
    data = ArchiverState(ready=True, backups=(DATA,))
    status = MySQLBackupStatus(phase="Running", source="db-1", attempt=2)
    verifying = advance("one", status, Facts(data, "db-1")).status
    assert (verifying.phase, verifying.attempt) == ("Verifying", 1)
    assert advance("one", verifying, Facts(data, "db-1")).job == VerifyBackup(name="one", attempt=1)
    done = advance("one", status, Facts(ArchiverState(ready=True, backups=(VERIFIED,)), "db-1")).status
    assert (done.phase, done.verified, done.gtid, done.checksum) == ("Completed", True, "0-1-5", "sha256:abc")


def test_a_failure_takes_another_member_and_the_third_one_ends_the_backup():
    status = MySQLBackupStatus(phase="Running", source="db-1", attempt=1)
    second = advance("one", status, Facts(failed("TakeBackup", 1), "db-2")).status
    assert (second.phase, second.source, second.attempt) == ("Running", "db-2", 2)
    assert advance("one", second, Facts(failed("TakeBackup", 1), "db-2")).job == TakeBackup(
        name="one", source="db-2", attempt=2
    )
    last = MySQLBackupStatus(phase="Verifying", source="db-1", attempt=3)
    data = ArchiverState(ready=True, backups=(DATA,), failures=failed("VerifyBackup", 3).failures)
    ended = advance("one", last, Facts(data, "db-1")).status
    assert (ended.phase, ended.message) == ("Failed", "the agent broke off")


def test_a_backup_waits_for_its_archiver_and_says_so():
    waiting = advance("one", MySQLBackupStatus(), Facts(None, "db-1")).status
    assert (waiting.phase, waiting.message) == ("Pending", "the archiver does not answer yet")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_last_time_that_was_missed_is_made_once():
    since, now = at("2017-12-14T00:00"), at("2017-12-16T05:00")
    time = due("spec.time", "22 1 * * *", since, now)
    assert time == at("2017-12-16T01:22")
    assert name_at("my-backup", time) == "my-backup-2017-12-16-01-22"
    assert due("spec.time", "22 1 * * *", time, now) is None


def test_a_wrong_schedule_names_its_field():
    with pytest.raises(ScheduleError, match=r"spec\.time: .often. is not a schedule"):
        due("spec.time", "often", at("2017-12-14T00:00"), at("2017-12-16T05:00"))


def test_the_oldest_completed_and_failed_backups_are_surplus():
    def backup(day: int, phase: str) -> MySQLBackup:
        metadata = ObjectMeta(name=f"b-{day}", creation_timestamp=f"2026-01-{day:02d}T00:00:00Z")
        return MySQLBackup(metadata=metadata, spec=MySQLBackupSpec(cluster="db"), status=MySQLBackupStatus(phase=phase))

    phases = ["Completed", "Failed", "Completed", "Running", "Failed", "Completed"]
    backups = [backup(day, phase) for day, phase in enumerate(phases, 1)]
    assert [each.metadata.name for each in surplus(backups, 2)] == ["b-1"]
    assert [each.metadata.name for each in surplus(backups, 1)] == ["b-3", "b-1", "b-2"]


def test_a_fit_replica_is_read_before_the_primary_and_stays():
    members = (
        MemberStatus(name="db-0", role="primary"),
        MemberStatus(name="db-1", role="replica", lag_seconds=3.0),
        MemberStatus(name="db-2", role="replica", lag_seconds=0.0),
        MemberStatus(name="db-3", role="replica", errant="0-4-1"),
    )
    status = MySQLClusterStatus(primary="db-0", members=members)
    assert member_to_read(status) == "db-2"
    assert member_to_read(status, "db-1") == "db-1"
    assert member_to_read(status, "db-3") == "db-2"
    assert member_to_read(MySQLClusterStatus(primary="db-0", members=members[:1])) == "db-0"
