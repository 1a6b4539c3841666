"""The whole operator on process nodes with other servers: MySQL, and an upgrade of MariaDB under writes."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from steersman.testing import EmbeddedCluster

from tests import scenario
from tests.test_process_nodes import (
    application,
    healthy,
    manifest,
    operated,
    process_cluster,
    survives_the_loss_of_its_primary,
    tier_of,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.soak]

IMAGES = {
    "steersman/mariadb:10.11": "mariadb-10.11",
    "steersman/mariadb:11.8": "mariadb-11.8",
    "steersman/mysql:9.7": "mysql-9.7",
}
UPGRADE_SECONDS = 400.0


@pytest.fixture(scope="module")
def lifecycle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with process_cluster(tmp_path_factory.mktemp("images"), IMAGES) as cluster:
        yield cluster


def test_a_cluster_of_mysql_survives_the_loss_of_its_primary(lifecycle: EmbeddedCluster):
    with operated(lifecycle, manifest(flavor="mysql", version="9.7"), "mysql") as cluster:
        survives_the_loss_of_its_primary(cluster, manifest(flavor="mysql", version="9.7"))


def test_an_upgrade_replaces_all_members_and_keeps_the_data(lifecycle: EmbeddedCluster):
    with operated(lifecycle, manifest(update={"canary": {"analysisSeconds": 2}}), "upgrade") as cluster:
        first = until(lambda: healthy(cluster), "the cluster did not become healthy")
        assert first["currentVersion"].startswith("10.11.")
        with application(cluster, first["primary"]) as cursor:
            cursor.execute("CREATE TABLE items (id BIGINT PRIMARY KEY)")
            cursor.execute("INSERT INTO items VALUES (1), (2)")
        cluster.patch("mysqlclusters.database.example.com", "db", {"spec": {"version": "11.8"}})

        def upgraded() -> dict[str, Any]:
            found = healthy(cluster)
            return found if found and all(each["version"].startswith("11.8.") for each in found["members"]) else {}

        after = until(upgraded, "the members were not all upgraded", UPGRADE_SECONDS)
        assert after["currentVersion"].startswith("11.8.")
        assert after["primary"] != first["primary"]  # a switchover preceded the replacement of its Pod
        with application(cluster, after["primary"]) as cursor:
            cursor.execute("INSERT INTO items VALUES (3)")
        for member in (each["name"] for each in after["members"]):
            with application(cluster, member) as cursor:
                until(lambda: _numbers(cursor) == [1, 2, 3], f"{member} did not follow")


@pytest.mark.parametrize("seed", range(1))
def test_servers_that_are_killed_during_an_upgrade_lose_no_write(lifecycle: EmbeddedCluster, seed: int):
    """The upgrade completes, or the analysis of a killed canary fails and all members return to the former version."""
    chance = random.Random(seed)
    wanted = manifest(update={"canary": {"analysisSeconds": 2}})
    with operated(lifecycle, wanted, "faults") as cluster, tier_of(cluster) as tier:
        database = scenario.started(tier, wanted)
        with scenario.Writers(database) as writers:
            writers.wait_acknowledged()
            cluster.patch(scenario.KIND, "db", {"spec": {"version": "11.8"}})
            until(lambda: database.status().get("phase") == "Updating", "the upgrade did not begin")
            for _ in range(2):
                time.sleep(chance.uniform(0, 10))
                members = [each["name"] for each in database.status()["members"]]
                tier.kill_server(chance.choice(members))

            def ended() -> bool:
                found = healthy(cluster)
                series = {each["version"][:5] for each in found.get("members", ())}
                failed = (found.get("update") or {}).get("phase") == "Failed"
                return series == {"11.8."} or (failed and series == {"10.11"})

            until(ended, "the upgrade did not end", UPGRADE_SECONDS)
            writers.wait_acknowledged()
        scenario.check_history(database, writers)


CONNECTIONS = 14


def test_the_size_follows_the_connections_of_clients(lifecycle: EmbeddedCluster):
    """Clients of the replica use most of its 20 connections: a replica is added, and removed when they are gone."""
    bounds = {"enabled": True, "minSize": 2, "maxSize": 3, "scaleDownStabilizationSeconds": 1}
    wanted = manifest(size=2, config={"max_connections": "20"}, autoscaling={**bounds, "targetConnectionsPercent": 50})
    with operated(lifecycle, wanted, "scaling") as cluster, tier_of(cluster) as tier:
        database = scenario.started(tier, wanted)
        with scenario.Writers(database) as writers:
            writers.wait_acknowledged()
            before = database.wait_healthy()
            (replica,) = (each["name"] for each in before["members"] if each["name"] != before["primary"])
            with contextlib.ExitStack() as clients:
                address = clients.enter_context(tier.member_address(replica))
                for _ in range(CONNECTIONS):
                    clients.enter_context(database.session(address))
                scenario.until(lambda: database.healthy().get("size") == 3, lambda: f"not added: {database.status()}")
            scenario.until(lambda: database.healthy().get("size") == 2, lambda: f"not removed: {database.status()}")
            writers.wait_acknowledged()
        scenario.check_history(database, writers)


def _numbers(cursor: Any) -> list[int]:
    cursor.execute("SELECT id FROM items ORDER BY id")
    return [row[0] for row in cursor.fetchall()]
