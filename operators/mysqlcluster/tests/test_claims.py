"""Clusters of both API groups with one name: one cluster owns the children, and the other changes nothing."""

from __future__ import annotations

import pytest
from steersman import LabelSelector, ObjectMeta, OwnerReference
from steersman.k8s import PodTemplateSpec, StatefulSet, StatefulSetSpec
from steersman.testing import simulated

from mysqlcluster.api.cr.v1.mysqlcluster_types import MySQLCluster as CompactCluster
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.claims import obstacle
from mysqlcluster.connections import use_agents

from .simulated import SimulatedServers
from .test_controller import CLUSTER

COMPACT = """
apiVersion: cr.mysqloperator.grtl.github.com/v1
kind: MySQLCluster
metadata: {name: db}
spec: {replicas: 1, image: "mariadb:10.11"}
"""
LABELS = {"app": "mysqlcluster", "mysqlcluster_cr": "db"}


def full(uid: str, created: str) -> MySQLCluster:
    return MySQLCluster(metadata=ObjectMeta(name="db", namespace="shop", uid=uid, creation_timestamp=created))


def compact(uid: str, created: str) -> CompactCluster:
    return CompactCluster(metadata=ObjectMeta(name="db", namespace="shop", uid=uid, creation_timestamp=created))


def stateful_set(owner: MySQLCluster | CompactCluster | None, labels: dict[str, str] = LABELS) -> StatefulSet:
    references = ()
    if owner is not None:
        version = owner.api_version
        references = (
            OwnerReference(
                api_version=version, kind="MySQLCluster", name="db", uid=owner.metadata.uid, controller=True
            ),
        )
    return StatefulSet(
        metadata=ObjectMeta(name="db", namespace="shop", labels=labels, owner_references=references),
        spec=StatefulSetSpec(selector=LabelSelector(), template=PodTemplateSpec()),
    )


OLD = full("a", "2026-01-01T00:00:00Z")
NEW = compact("b", "2026-01-02T00:00:00Z")


def test_the_owner_of_the_stateful_set_wins_although_it_is_younger():
    assert obstacle(NEW, [stateful_set(NEW)], OLD) == ""
    assert "StatefulSet db belongs to MySQLCluster.cr.mysqloperator.grtl.github.com db" in obstacle(
        OLD, [stateful_set(NEW)], NEW
    )


def test_without_children_the_older_cluster_wins():
    assert obstacle(OLD, [], NEW) == ""
    assert "the older MySQLCluster.database.example.com db has the same name" in obstacle(NEW, [], OLD)


def test_of_two_clusters_of_the_same_second_exactly_one_wins():
    same = (full("x", "2026-01-01T00:00:00Z"), compact("y", "2026-01-01T00:00:00Z"))
    assert [bool(obstacle(a, [], b)) for a, b in (same, same[::-1])] == [False, True]


def test_orphaned_children_are_adopted_and_foreign_ones_are_not():
    assert obstacle(OLD, [stateful_set(None)], None) == ""
    assert "was not made by this operator" in obstacle(OLD, [stateful_set(None, {"app": "other"})], None)


@pytest.mark.parametrize("first", ["full", "compact"])
def test_the_loser_is_blocked_and_touches_nothing_until_the_winner_is_gone(first):
    @simulated(seed=11)
    async def run(simulation):
        use_agents(SimulatedServers("db-0", "db-1", "db-2"))
        await simulation.operator("mysqlcluster:operator")
        order = ((CLUSTER, MySQLCluster, 3), (COMPACT, CompactCluster, 1))
        (winner, winning, size), (loser, losing, other) = order if first == "full" else order[::-1]
        await simulation.apply(winner)
        await simulation.passes(seconds=60)
        await simulation.apply(loser)
        await simulation.passes(seconds=60)

        blocked = (await simulation.client.get(losing, "db", namespace="default")).status
        assert blocked.phase == "Blocked"
        (progressing,) = [each for each in blocked.conditions if each.type == "Progressing"]
        assert progressing.reason == "NameConflict"
        assert "StatefulSet db belongs to" in progressing.message
        owned = await simulation.client.get(StatefulSet, "db", namespace="default")
        assert owned.spec.replicas == size
        assert (await simulation.client.get(winning, "db", namespace="default")).status.phase == "Running"

        await simulation.client.delete(winning, "db", namespace="default")
        await simulation.passes(seconds=60)
        follower = await simulation.client.get(StatefulSet, "db", namespace="default")
        assert follower.spec.replicas == other

    run()
