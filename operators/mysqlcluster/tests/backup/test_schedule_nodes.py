"""Scheduled backups of both API groups on process nodes, to an S3 server with encryption and to a volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from steersman.testing import Cluster, EmbeddedCluster

from tests.backup.nodes import (
    BACKUPS,
    COMPACT,
    KIND,
    Place,
    cluster_of,
    compact,
    holds_secret,
    is_running,
    next_second,
    numbers,
    operator_on,
    place_of,
    reaches,
    s3_in_pod,
    status,
)
from tests.test_process_nodes import application, processes, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

INSTANCES = "mysqlbackupinstances.cr.mysqloperator.grtl.github.com"
SCHEDULES = "mysqlbackupschedules.cr.mysqloperator.grtl.github.com"
EVERY_MINUTE = "* * * * *"
MINUTES = 240.0


@pytest.fixture
def place(processes: EmbeddedCluster) -> Iterator[Place]:  # noqa: F811
    with place_of(processes) as place:
        yield place


def completed(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    found = [each for each in cluster.list(kind) if each.get("status", {}).get("phase") == "Completed"]
    return sorted(found, key=lambda each: each["metadata"]["name"])


@pytest.mark.soak
def test_scheduled_backups_in_s3_are_encrypted_kept_by_number_and_restored_to_a_second(place: Place):
    cluster = place.cluster
    target = s3_in_pod(cluster)
    policy = {"schedule": EVERY_MINUTE, "keep": 1, "target": target, "encryptionSecret": "seal"}
    with operator_on(cluster):
        cluster.apply(cluster_of("db", backup=policy))
        until(lambda: is_running(cluster, "db"), "the cluster did not become healthy")
        with application(cluster, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1)")
            first = until(lambda: completed(cluster, BACKUPS), "no scheduled backup was completed", MINUTES)[0]
            next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (2)")
            point = next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (3)")
            end = next_second(cursor)
        assert first["metadata"]["name"].startswith(f"db-{first['metadata']['creationTimestamp'][:10]}-")
        assert (first["status"]["verified"], first["status"]["encryptionSecret"]) == (True, "seal")
        until(lambda: reaches(cluster, end), "the archive did not go on")
        cluster.apply(cluster_of("copy", fromBackup="db", restore={"pointInTime": point.isoformat()}))
        until(lambda: is_running(cluster, "copy"), "the copy did not become healthy")
        with application(cluster, "copy-0", "copy") as cursor:
            assert numbers(cursor) == [1, 2]

        name = first["metadata"]["name"]
        until(lambda: cluster.get(BACKUPS, name) is None, "the older backup was not removed", MINUTES)
        until(lambda: len(completed(cluster, BACKUPS)) == 1, "another backup was not completed", MINUTES)
        assert status(cluster, KIND, "db")["backup"]["lastScheduled"]
    reasons = {each["reason"] for each in cluster.list("events")}
    assert "BackupCompleted" in reasons
    for kind in (KIND, BACKUPS, "configmaps", "events"):
        assert not holds_secret(cluster.list(kind)), kind


@pytest.mark.soak
def test_schedules_and_instances_of_the_compact_form_are_backed_up_and_restored(place: Place):
    cluster = place.cluster
    with operator_on(cluster):
        cluster.apply(compact("MySQLCluster", "db", replicas=1, image="steersman/mariadb:10.11"))
        until(lambda: is_running(cluster, "db", COMPACT), "the cluster did not become healthy")
        with application(cluster, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1), (2)")
        cluster.apply(compact("MySQLBackupInstance", "now", cluster="db"))
        cluster.apply(compact("MySQLBackupSchedule", "nightly", cluster="db", time=EVERY_MINUTE, storage="1Gi"))
        made = until(
            lambda: [each for each in completed(cluster, INSTANCES) if each["metadata"]["name"] != "now"],
            "no scheduled backup was completed",
            MINUTES,
        )[0]
        until(lambda: status(cluster, INSTANCES, "now").get("phase") == "Completed", "the backup was not completed")
        assert made["metadata"]["name"].startswith("nightly-")
        assert (made["spec"], made["status"]["status"]) == ({"schedule": "nightly", "cluster": "db"}, "Completed")
        assert status(cluster, SCHEDULES, "nightly")["lastBackup"].startswith("nightly-")

        cluster.apply(
            compact(
                "MySQLCluster", "copy", replicas=1, image="steersman/mariadb:10.11", fromBackup=made["metadata"]["name"]
            )
        )
        until(lambda: is_running(cluster, "copy", COMPACT), "the copy did not become healthy")
        with application(cluster, "copy-0", "copy") as cursor:
            assert numbers(cursor) == [1, 2]
