"""The controller on the embedded cluster in virtual time, with a simulated data plane."""

from __future__ import annotations

import io

from steersman import MergePatch, logs
from steersman.k8s import StatefulSet
from steersman.testing import simulated

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.connections import use_agents
from mysqlcluster.gtid import GtidSet

from .simulated import ORIGIN, DataPlane

CLUSTER = """
apiVersion: database.example.com/v1alpha1
kind: MySQLCluster
metadata: {name: db}
spec: {size: 3, flavor: mariadb}
"""


async def running(world) -> DataPlane:
    plane = DataPlane("db-0", "db-1", "db-2")
    use_agents(plane)
    await world.operator("mysqlcluster:operator")
    await world.apply(CLUSTER)
    await world.passes(seconds=60)
    return plane


async def fetched(world) -> MySQLCluster:
    return await world.client.get(MySQLCluster, "db", namespace="default")


@simulated(seed=1)
async def test_a_new_cluster_gets_a_primary_and_replicas_that_acknowledge(world):
    plane = await running(world)
    status = (await fetched(world)).status
    assert (status.phase, status.primary) == ("Running", "db-0")
    assert status.quorum is not None
    assert (len(status.quorum.members), status.quorum.acks) == (3, 1)
    assert plane.write()


@simulated(seed=2)
async def test_the_death_of_the_primary_loses_no_acknowledged_transaction(world):
    plane = await running(world)
    assert plane.write()
    plane.crash("db-0")
    await world.passes(seconds=20)
    status = (await fetched(world)).status
    assert status.primary in ("db-1", "db-2")
    assert plane.write()
    held = plane.members[status.primary].executed
    assert held.contains(GtidSet({ORIGIN: [(1, plane.acknowledged)]}))
    plane.start("db-0")
    await world.passes(seconds=30)
    assert (await fetched(world)).status.phase == "Running"
    assert plane.members["db-0"].source == status.primary


@simulated(seed=4)
async def test_an_invalid_spec_is_reported_and_does_not_stop_a_failover(world):
    plane = await running(world)
    assert plane.write()
    await world.client.patch(MySQLCluster, "db", MergePatch({"spec": {"version": "8.0"}}), namespace="default")
    await world.passes(seconds=5)
    plane.crash("db-0")
    await world.passes(seconds=20)
    status = (await fetched(world)).status
    assert status.primary in ("db-1", "db-2")
    assert plane.write()
    blocked = next(each for each in status.conditions if each.type == "UpdateBlocked")
    assert (blocked.status, "mariadb is supported from 10.11 on" in blocked.message) == ("True", True)
    await world.client.patch(MySQLCluster, "db", MergePatch({"spec": {"version": None}}), namespace="default")
    await world.passes(seconds=5)
    blocked = next(each for each in (await fetched(world)).status.conditions if each.type == "UpdateBlocked")
    assert blocked.status == "False"


class Deleting(DataPlane):
    """A data plane that deletes the cluster during a reconcile."""

    world = None

    async def act(self, action):
        if self.world is not None:
            client, self.world = self.world.client, None
            await client.delete(MySQLCluster, "db", namespace="default")
        return await super().act(action)


@simulated(seed=5)
async def test_a_cluster_that_is_deleted_in_the_middle_of_a_reconcile_is_no_failure(world):
    stream = io.StringIO()
    logs.configure(stream=stream)
    plane = Deleting("db-0", "db-1", "db-2")
    plane.world = world
    use_agents(plane)
    await world.operator("mysqlcluster:operator")
    await world.apply(CLUSTER)
    await world.passes(seconds=30)
    logs.configure()
    assert plane.actions
    assert "secret_created" in stream.getvalue()
    assert "reconcile_failed" not in stream.getvalue()


@simulated(seed=3)
async def test_a_new_cluster_of_a_version_that_is_too_old_is_blocked_and_has_no_children(world):
    use_agents(DataPlane())
    await world.operator("mysqlcluster:operator")
    await world.apply(CLUSTER.replace("flavor: mariadb", "version: 5.7"))
    await world.passes(seconds=10)
    status = (await fetched(world)).status
    assert status.phase == "Blocked"
    assert "mysql is supported from 9.7 on" in status.conditions[0].message
    assert list(await world.client.list(StatefulSet, namespace="default")) == []
