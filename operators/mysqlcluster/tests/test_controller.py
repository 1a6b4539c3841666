"""The controller on the embedded cluster in virtual time, with simulated servers."""

from __future__ import annotations

import io

from steersman import MergePatch, logs
from steersman.k8s import StatefulSet
from steersman.testing import simulated

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.connections import use_agents
from mysqlcluster.gtid import GtidSet

from .simulated import ORIGIN, SimulatedServers

CLUSTER = """
apiVersion: database.example.com/v1alpha1
kind: MySQLCluster
metadata: {name: db}
spec: {size: 3, flavor: mariadb}
"""


async def running(simulation) -> SimulatedServers:
    servers = SimulatedServers("db-0", "db-1", "db-2")
    use_agents(servers)
    await simulation.operator("mysqlcluster:operator")
    await simulation.apply(CLUSTER)
    await simulation.passes(seconds=60)
    return servers


async def fetched(simulation) -> MySQLCluster:
    return await simulation.client.get(MySQLCluster, "db", namespace="default")


@simulated(seed=1)
async def test_a_new_cluster_gets_a_primary_and_replicas_that_acknowledge(simulation):
    servers = await running(simulation)
    status = (await fetched(simulation)).status
    assert (status.phase, status.primary) == ("Running", "db-0")
    assert status.quorum is not None
    assert (len(status.quorum.members), status.quorum.acks) == (3, 1)
    assert servers.write()


@simulated(seed=1)
async def test_a_settled_cluster_is_observed_at_changes_and_every_five_minutes(simulation):
    servers = await running(simulation)
    servers.watched = True
    await simulation.passes(seconds=10)
    before = servers.reports
    await simulation.passes(seconds=1000)
    assert before + 3 * 3 <= servers.reports <= before + 4 * 3
    before = servers.reports
    servers.changed()
    await simulation.passes(seconds=1)
    assert servers.reports == before + 3


@simulated(seed=2)
async def test_the_death_of_the_primary_loses_no_acknowledged_transaction(simulation):
    servers = await running(simulation)
    assert servers.write()
    servers.crash("db-0")
    await simulation.passes(seconds=20)
    status = (await fetched(simulation)).status
    assert status.primary in ("db-1", "db-2")
    assert servers.write()
    held = servers.members[status.primary].executed
    assert held.contains(GtidSet({ORIGIN: [(1, servers.acknowledged)]}))
    servers.start("db-0")
    await simulation.passes(seconds=30)
    assert (await fetched(simulation)).status.phase == "Running"
    assert servers.members["db-0"].source == status.primary


@simulated(seed=4)
async def test_an_invalid_spec_is_reported_and_does_not_stop_a_failover(simulation):
    servers = await running(simulation)
    assert servers.write()
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": {"version": "8.0"}}), namespace="default")
    await simulation.passes(seconds=5)
    servers.crash("db-0")
    await simulation.passes(seconds=20)
    status = (await fetched(simulation)).status
    assert status.primary in ("db-1", "db-2")
    assert servers.write()
    blocked = next(each for each in status.conditions if each.type == "UpdateBlocked")
    assert (blocked.status, "mariadb is supported from 10.11 on" in blocked.message) == ("True", True)
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": {"version": None}}), namespace="default")
    await simulation.passes(seconds=5)
    blocked = next(each for each in (await fetched(simulation)).status.conditions if each.type == "UpdateBlocked")
    assert blocked.status == "False"


class Deleting(SimulatedServers):
    """Servers that delete the cluster during a reconcile."""

    simulation = None

    async def act(self, action):
        if self.simulation is not None:
            client, self.simulation = self.simulation.client, None
            await client.delete(MySQLCluster, "db", namespace="default")
        return await super().act(action)


@simulated(seed=5)
async def test_a_cluster_that_is_deleted_in_the_middle_of_a_reconcile_is_no_failure(simulation):
    stream = io.StringIO()
    logs.configure(stream=stream)
    servers = Deleting("db-0", "db-1", "db-2")
    servers.simulation = simulation
    use_agents(servers)
    await simulation.operator("mysqlcluster:operator")
    await simulation.apply(CLUSTER)
    await simulation.passes(seconds=30)
    logs.configure()
    assert servers.actions
    assert "secret_created" in stream.getvalue()
    assert "reconcile_failed" not in stream.getvalue()


@simulated(seed=3)
async def test_a_new_cluster_of_a_version_that_is_too_old_is_blocked_and_has_no_children(simulation):
    use_agents(SimulatedServers())
    await simulation.operator("mysqlcluster:operator")
    await simulation.apply(CLUSTER.replace("flavor: mariadb", "version: 5.7"))
    await simulation.passes(seconds=10)
    status = (await fetched(simulation)).status
    assert status.phase == "Blocked"
    assert "mysql is supported from 9.7 on" in status.conditions[0].message
    assert list(await simulation.client.list(StatefulSet, namespace="default")) == []
