"""Histories of writes on Pods with real servers: partitions one way and both, pauses, lost Pods and volumes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from . import scenario
from .node_history import FaultKind, PodFault, faults_of, run_history
from .test_process_nodes import manifest, operated, process_cluster, tier_of

RUNS = int(os.environ.get("HISTORY_RUNS", "1"))
HISTORIES = [
    pytest.param((PodFault(FaultKind.VOLUME, True, 0), PodFault(FaultKind.POD, False, 0)), id="a lost volume"),
    pytest.param((PodFault(FaultKind.PAUSE, True, 8.0),), id="a paused primary"),
    pytest.param(
        (PodFault(FaultKind.PARTITION_OUT, True, 5.0), PodFault(FaultKind.PARTITION_IN, True, 5.0)),
        id="partitions in one direction",
    ),
]


@pytest.fixture(scope="module", params=["mariadb-10.11", pytest.param("mysql-9.7", marks=pytest.mark.soak)])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[scenario.Database]:
    flavor, _, version = request.param.partition("-")
    wanted = manifest(flavor=flavor, version=version)
    with (
        process_cluster(tmp_path_factory.mktemp("images"), {f"steersman/{flavor}": request.param}) as processes,
        operated(processes, wanted, "histories") as cluster,
        tier_of(cluster) as tier,
    ):
        yield scenario.started(tier, wanted)


def clear(database: scenario.Database) -> None:
    with database.session(database.tier.primary_address(database.name)) as cursor:
        cursor.execute("DELETE FROM items")


@pytest.mark.slow
@pytest.mark.parametrize("faults", HISTORIES)
def test_a_fault_of_a_pod_loses_no_acknowledged_write(shop: scenario.Database, faults: tuple[PodFault, ...]):
    clear(shop)
    assert run_history(shop, faults).acknowledged


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(RUNS))
def test_the_faults_of_a_seed_lose_no_acknowledged_write(shop: scenario.Database, seed: int):
    clear(shop)
    assert run_history(shop, faults_of(seed)).acknowledged


def test_a_seed_gives_the_same_faults_again_and_all_kinds_occur():
    assert faults_of(7) == faults_of(7)
    assert {fault.kind for seed in range(30) for fault in faults_of(seed)} == set(FaultKind)
