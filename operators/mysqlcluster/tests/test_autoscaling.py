"""Autoscaling of read replicas by connections, and volumes that grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from steersman import MergePatch, Quantity
from steersman.k8s import PersistentVolumeClaim, StatefulSet
from steersman.testing import simulated

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import Autoscaling, AutoscalingStatus, MySQLCluster
from mysqlcluster.autoscaling import next_size
from mysqlcluster.desired import AutoGrow, Storage
from mysqlcluster.machine import ClusterState, Quorum
from mysqlcluster.observation import MemberState, Observation
from mysqlcluster.volumes import Volume, growth

from .test_controller import fetched, running
from .test_failover_policy import NAMES, primary, replica

STATE = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))
SPEC = Autoscaling(enabled=True, min_size=2, max_size=5, target_connections_percent=70)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = Quantity("10Gi")


def seen(*connections: int, **more: object) -> Observation:
    """Return a cluster whose replicas have these connections of 100."""
    leader = replace(primary(), connections=90, max_connections=100)
    replicas: list[MemberState] = [
        replace(replica(name), io_running=True, sql_running=True, connections=count, max_connections=100, **more)
        for name, count in zip(NAMES[1:], connections, strict=True)
    ]
    return Observation((leader, *replicas), 100.0)


@pytest.mark.parametrize(
    ("connections", "size"), [((70, 70), 3), ((75, 76), 3), ((90, 90), 4), ((100, 100), 4), ((40, 40), 3)]
)
def test_the_size_follows_the_connections_of_the_replicas(connections: tuple[int, int], size: int):
    assert next_size(SPEC, 3, AutoscalingStatus(), STATE, seen(*connections), NOW).size == size


def test_the_size_stays_within_its_bounds():
    low = replace_spec(target_connections_percent=10)
    assert next_size(low, 3, AutoscalingStatus(), STATE, seen(100, 100), NOW).size == 5
    assert next_size(SPEC, 7, AutoscalingStatus(), STATE, seen(1, 1), NOW).size == 5
    assert next_size(SPEC, 1, AutoscalingStatus(), STATE, seen(1, 1), NOW).size == 2


def replace_spec(**more: Any) -> Autoscaling:
    return Autoscaling(enabled=True, min_size=2, max_size=5, **more)


def test_one_member_leaves_after_fewer_have_sufficed_long_enough():
    first = next_size(SPEC, 3, AutoscalingStatus(), STATE, seen(10, 10), NOW)
    assert (first.size, first.status.fewer_since) == (3, "2026-01-01T00:00:00Z")
    early = next_size(SPEC, 3, first.status, STATE, seen(10, 10), NOW + timedelta(seconds=599))
    assert early.size == 3
    busy = next_size(SPEC, 3, early.status, STATE, seen(70, 70), NOW + timedelta(seconds=599))
    assert busy.status.fewer_since == ""
    late = next_size(SPEC, 3, first.status, STATE, seen(10, 10), NOW + timedelta(seconds=600))
    assert (late.size, late.status.fewer_since) == (2, "")


def test_the_size_does_not_change_while_a_member_does_not_replicate_or_during_an_upgrade():
    broken = seen(100, 100, sql_error="1062: duplicate").members
    stopped = replace(broken[2], sql_running=False)
    assert next_size(SPEC, 3, AutoscalingStatus(), STATE, Observation((*broken[:2], stopped), 1.0), NOW).size == 3
    changing = replace(STATE, changing=True)
    assert next_size(SPEC, 3, AutoscalingStatus(), changing, seen(100, 100), NOW).size == 3
    assert next_size(SPEC, 3, AutoscalingStatus(), STATE, seen(100, 100), NOW, updating=True).size == 3


def volume(size: str, used: float, capacity: str = "") -> Volume:
    return Volume(Quantity(size), Quantity(capacity or size), used)


def test_a_full_volume_grows_by_the_step_up_to_the_greatest_size():
    storage = Storage(Quantity("10Gi"), auto_grow=AutoGrow(True, 80, 25, Quantity("13Gi")))
    assert growth(storage, {"db-0": volume("10Gi", 0.79)}).sizes == {}
    assert growth(storage, {"db-0": volume("10Gi", 0.8)}).sizes == {"db-0": Quantity("12800Mi")}
    assert growth(storage, {"db-0": volume("12800Mi", 0.8)}).sizes == {"db-0": Quantity("13Gi")}
    full = growth(storage, {"db-0": volume("13Gi", 0.9)})
    assert (full.sizes, full.problem) == ({}, "db-0 uses 90% and has spec.storage.autoGrow.max")


def test_a_volume_that_still_grows_does_not_grow_again():
    storage = Storage(Quantity("10Gi"), auto_grow=AutoGrow(True))
    assert growth(storage, {"db-0": volume("12Gi", 0.95, capacity="10Gi")}).sizes == {}


def test_all_volumes_follow_the_largest_one_and_the_spec():
    volumes = {"db-0": volume("12Gi", 0.1), "db-1": volume("10Gi", 0.1)}
    assert growth(Storage(Quantity("10Gi")), volumes).sizes == {"db-1": Quantity("12Gi")}
    assert growth(Storage(Quantity("20Gi")), volumes).sizes == {"db-0": Quantity("20Gi"), "db-1": Quantity("20Gi")}


def test_a_full_volume_without_growth_is_reported_with_the_way_out():
    assert growth(Storage(Quantity("1Gi")), {"db-0": volume("1Gi", 0.9)}).problem == (
        "db-0 uses 90%; set spec.storage.size or autoGrow"
    )


@simulated(seed=13)
async def test_a_busy_cluster_gets_a_member_and_a_full_volume_grows(simulation):
    servers = await running(simulation)
    servers.members["db-3"] = MemberState(
        "db-3", server_up=True, version="11.8.9", settings_revision=servers.members["db-0"].settings_revision
    )
    for name in NAMES:
        size = {"resources": {"requests": {"storage": "1Gi"}}}
        body = {
            "metadata": {"name": f"data-{name}", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], **size},
        }
        await simulation.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body})
    servers.members = {
        name: replace(each, connections=90, max_connections=100, disk_used_ratio=0.9)
        for name, each in servers.members.items()
    }
    spec = {
        "autoscaling": {"enabled": True, "minSize": 3, "maxSize": 4},
        "storage": {"size": "1Gi", "autoGrow": {"enabled": True, "max": "2Gi"}},
    }
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": spec}), namespace="default")
    await simulation.passes(seconds=60)
    cluster = await fetched(simulation)
    assert (cluster.spec.size, len(cluster.status.nodes), cluster.status.phase) == (4, 4, "Running")
    claim = await simulation.client.get(PersistentVolumeClaim, "data-db-0", namespace="default")
    assert claim.spec.resources.requests["storage"] > Quantity("1Gi")
    made = await simulation.client.get(StatefulSet, "db", namespace="default")
    assert made.spec.volume_claim_templates[0].spec.resources.requests["storage"] == Quantity("1Gi")
    condition = next(each for each in cluster.status.conditions if each.type == "StorageOK")
    assert condition.status in ("True", "False")
