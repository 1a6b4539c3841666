"""Metrics of deleted clusters are removed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from steersman import Key
from steersman.metrics import REGISTRY
from steersman.testing import simulated

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.gauges import ClusterGauges

from .test_controller import running

A, B = Key("shop", "a"), Key("shop", "b")


def test_the_gauges_of_clusters_that_are_gone_are_removed():
    registry = CollectorRegistry()
    up = Gauge("up", "Up.", ["namespace", "cluster", "member"], registry=registry)
    age = Gauge("age", "Age.", ["namespace", "cluster"], registry=registry)
    gauges = ClusterGauges()
    for key in (A, B):
        gauges.set(key, up, 1, f"{key.name}-0")
        gauges.set(key, age, 5)
    gauges.forget(A, age)
    assert b'age{cluster="a"' not in generate_latest(registry)
    assert gauges.keep([A]) == (B,)
    text = generate_latest(registry).decode()
    assert 'member="a-0"' in text
    assert 'cluster="b"' not in text
    assert gauges.keep([A]) == ()


@simulated(seed=11)
async def test_a_deleted_cluster_has_no_metrics_after_a_minute(simulation):
    await running(simulation)
    assert 'steersman_mysql_primary_epoch{cluster="db"' in generate_latest(REGISTRY).decode()
    await simulation.client.delete(MySQLCluster, "db", namespace="default")
    await simulation.passes(seconds=130)
    assert 'cluster="db"' not in generate_latest(REGISTRY).decode()
