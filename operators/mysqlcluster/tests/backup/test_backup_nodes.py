"""Backups of the whole operator on process nodes, with operators that are restarted and killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from steersman.testing import EmbeddedCluster

from tests.backup.nodes import (
    BACKUPS,
    KIND,
    OperatorProcess,
    Place,
    backup_of,
    cluster_of,
    is_running,
    next_second,
    numbers,
    operator_on,
    place_of,
    reaches,
    status,
)
from tests.test_process_nodes import application, processes, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

POLICY = {"schedule": "0 3 * * *", "target": {"pvc": {"size": "1Gi"}}}


@pytest.fixture
def place(processes: EmbeddedCluster) -> Iterator[Place]:  # noqa: F811
    with place_of(processes) as place:
        yield place


def test_a_cluster_is_restored_to_a_second_although_the_operator_is_restarted(place: Place):
    cluster = place.cluster
    with operator_on(cluster):
        cluster.apply(cluster_of("db", backup=POLICY))
        until(lambda: is_running(cluster, "db"), "the cluster did not become healthy")
        with application(cluster, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1)")
            cluster.apply(backup_of("first"))
            until(
                lambda: status(cluster, BACKUPS, "first").get("phase") == "Completed",
                "the backup was not completed",
            )
            next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (2), (3)")
            point = next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (4)")
            end = next_second(cursor)
        until(lambda: reaches(cluster, end), "the archive did not go on")
        cluster.apply(cluster_of("copy", fromBackup="first", restore={"pointInTime": point.isoformat()}))
        until(lambda: status(cluster, KIND, "copy").get("transition"), "the restore did not begin")

    with operator_on(cluster):
        until(lambda: is_running(cluster, "copy"), "the copy did not become healthy")
        with application(cluster, "copy-0", "copy") as cursor:
            assert numbers(cursor) == [1, 2, 3]
        until(lambda: cluster.get("statefulsets", "copy-archiver") is None, "the archiver of the copy was not removed")

    backup = status(cluster, BACKUPS, "first")
    assert (backup["verified"], backup["location"].startswith(f"{cluster.namespace}/db-")) == (True, True)
    conditions = {each["type"]: each for each in status(cluster, KIND, "db")["conditions"]}
    assert conditions["BackupReady"]["status"] == "True"


@pytest.mark.soak
def test_an_operator_that_is_killed_in_every_phase_of_a_backup_and_of_a_restore_goes_on(place: Place, tmp_path: Path):
    cluster, operator = place.cluster, OperatorProcess(place, tmp_path)
    operator.start()
    try:
        cluster.apply(cluster_of("db", backup=POLICY))
        until(lambda: is_running(cluster, "db"), "the cluster did not become healthy")
        with application(cluster, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1), (2)")
        cluster.apply(backup_of("first"))
        for phase in ("Running", "Verifying"):
            until(lambda phase=phase: status(cluster, BACKUPS, "first").get("phase") == phase, f"no phase {phase}")
            operator.kill()
            operator.start()
        until(lambda: status(cluster, BACKUPS, "first").get("phase") == "Completed", "the backup was not completed")
        assert status(cluster, BACKUPS, "first")["attempt"] == 1

        cluster.apply(cluster_of("copy", fromBackup="first"))
        until(lambda: status(cluster, KIND, "copy").get("transition"), "the restore did not begin")
        operator.kill()
        operator.start()
        until(lambda: status(cluster, KIND, "copy").get("members"), "the members were not seen")
        operator.kill()
        operator.start()
        until(lambda: is_running(cluster, "copy"), "the copy did not become healthy")
        with application(cluster, "copy-0", "copy") as cursor:
            assert numbers(cursor) == [1, 2]
    finally:
        operator.close()
