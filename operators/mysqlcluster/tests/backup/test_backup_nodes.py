"""Backups of the whole operator on process nodes: a cluster is restored to a second while the operator is restarted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from steersman.testing import Cluster, EmbeddedCluster, Operators
from steersman.testing.node_faults import forwarded

from mysqlcluster.backup.client import use_archivers
from mysqlcluster.connections import HttpsAgentSource, use_agents
from mysqlcluster.names import AGENT_PORT, ARCHIVER_PORT
from tests.test_process_nodes import application, processes, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
RESTORE_SECONDS = 30.0
KIND = "mysqlclusters.database.example.com"


def cluster_of(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLCluster",
        "metadata": {"name": name},
        "spec": {"size": 1, "flavor": "mariadb", "version": "10.11", **spec},
    }


BACKUP = {
    "apiVersion": "database.example.com/v1alpha1",
    "kind": "MySQLBackup",
    "metadata": {"name": "first"},
    "spec": {"cluster": "db"},
}


@pytest.fixture
def place(processes: EmbeddedCluster) -> Iterator[EmbeddedCluster]:  # noqa: F811
    """A namespace, and ports that lead to the agents and archivers of two clusters."""
    processes.create_namespace("store")
    with processes.test("store"), contextlib.ExitStack() as stack:
        processes.apply(PROJECT / "config" / "crd" / "bases")
        ports: dict[str, int] = {}
        for name in ("db-0", "copy-0"):
            ports[name] = stack.enter_context(forwarded(processes, name, AGENT_PORT))[1]
        for name in ("db-archiver-0", "copy-archiver-0"):
            ports[name] = stack.enter_context(forwarded(processes, name, ARCHIVER_PORT))[1]
        use_agents(HttpsAgentSource(lambda _, member: f"https://localhost:{ports[member]}"))
        use_archivers(lambda key: f"https://localhost:{ports[f'{key.name}-archiver-0']}")
        try:
            yield processes
        finally:
            use_agents(HttpsAgentSource())
            use_archivers()
    processes.delete_namespace("store")


@contextlib.contextmanager
def operator_on(cluster: Cluster) -> Iterator[None]:
    operators = Operators(cluster)
    try:
        operators("mysqlcluster:operator", namespaces=("store",))
        yield
    finally:
        operators.close()


def status(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    return (cluster.get(kind, name) or {}).get("status") or {}


def running(cluster: Cluster, name: str) -> bool:
    return status(cluster, KIND, name).get("phase") == "Running"


def next_second(cursor: Any) -> datetime:
    cursor.execute("DO SLEEP(1.05 - MOD(UNIX_TIMESTAMP(NOW(6)), 1))")
    cursor.execute("SELECT UNIX_TIMESTAMP()")
    return datetime.fromtimestamp(int(cursor.fetchone()[0]), UTC)


def reaches(cluster: Cluster, point: datetime) -> bool:
    backup = status(cluster, KIND, "db").get("backup") or {}
    to = backup.get("recoverableTo")
    return bool(to) and datetime.fromisoformat(to) >= point


def test_a_cluster_is_restored_to_a_second_although_the_operator_is_restarted(place: EmbeddedCluster):
    policy = {"schedule": "0 3 * * *", "target": {"pvc": {"size": "1Gi"}}}
    with operator_on(place):
        place.apply(cluster_of("db", backup=policy))
        until(lambda: running(place, "db"), "the cluster did not become healthy")
        with application(place, "db-0") as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1)")
            place.apply(BACKUP)
            until(
                lambda: status(place, "mysqlbackups.database.example.com", "first").get("phase") == "Completed",
                "the backup was not completed",
            )
            next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (2), (3)")
            point = next_second(cursor)
            cursor.execute("INSERT INTO items VALUES (4)")
            end = next_second(cursor)
        until(lambda: reaches(place, end), "the archive did not go on")
        began = time.monotonic()
        place.apply(cluster_of("copy", fromBackup="first", restore={"pointInTime": point.isoformat()}))
        until(lambda: status(place, KIND, "copy").get("transition"), "the restore did not begin")

    with operator_on(place):
        until(lambda: running(place, "copy"), "the copy did not become healthy")
        took = time.monotonic() - began
        with application(place, "copy-0", "copy") as cursor:
            cursor.execute("SELECT id FROM items ORDER BY id")
            assert [row[0] for row in cursor.fetchall()] == [1, 2, 3]
        until(lambda: place.get("statefulsets", "copy-archiver") is None, "the archiver of the copy was not removed")
    assert took < RESTORE_SECONDS

    backup = status(place, "mysqlbackups.database.example.com", "first")
    assert (backup["verified"], backup["location"].startswith("store/db-")) == (True, True)
    conditions = {each["type"]: each for each in status(place, KIND, "db")["conditions"]}
    assert conditions["BackupReady"]["status"] == "True"
