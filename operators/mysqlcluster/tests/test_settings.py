"""Variables of `spec.config`, restarts one at a time, and the removal of members."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from steersman import MergePatch
from steersman.k8s import Pod
from steersman.testing import simulated

from mysqlcluster.actions import Drain, Restart, SetVariables, StopReplication
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.engines import Layout, MariaDB, ServerOptions
from mysqlcluster.machine import ClusterState, Policy, Quorum, Step, decide
from mysqlcluster.names import ROLE_LABEL
from mysqlcluster.observation import MemberState, Observation
from mysqlcluster.server_settings import RESERVED, refusal, revision, spelled

from .test_controller import fetched, running
from .test_failover_policy import NAMES, primary, replica

STATE = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))
WANTED = {"max_connections": "200"}
POLICY = Policy(NAMES, max_ack_count=1, settings=(("max_connections", "200"),), settings_revision=revision(WANTED))


def following(name: str, **more: object) -> MemberState:
    return replace(replica(name), io_running=True, settings_revision=revision(WANTED), lag_seconds=0.0, **more)


def leading(**more: object) -> MemberState:
    return replace(primary(), settings_revision=revision(WANTED), **more)


def watch(*members: MemberState, policy: Policy = POLICY, state: ClusterState = STATE):
    return decide(policy, state, Observation(members, 100.0))


def test_all_members_get_the_variables_at_once():
    decision = watch(leading(), following("db-1"), replace(following("db-2"), settings_revision="old"))
    (action,) = decision.actions
    assert isinstance(action, SetVariables)
    assert (action.member, action.values, action.revision) == ("db-2", WANTED, revision(WANTED))


def test_one_replica_restarts_at_a_time():
    waiting = {"restart_required": ("innodb_log_file_size",)}
    decision = watch(leading(**waiting), following("db-1", **waiting), following("db-2", **waiting))
    (action,) = decision.actions
    assert isinstance(action, Restart)
    assert action.member == "db-1"
    assert "innodb_log_file_size" in action.reason


def test_nothing_restarts_while_a_member_is_missing():
    waiting = following("db-1", restart_required=("innodb_log_file_size",))
    decision = watch(leading(), waiting, replace(following("db-2"), io_running=False, sql_running=False))
    assert not any(isinstance(action, Restart) for action in decision.actions)


def test_the_primary_hands_over_before_it_restarts():
    decision = watch(leading(restart_required=("innodb_log_file_size",)), following("db-1"), following("db-2"))
    assert decision.actions == ()
    assert decision.store is not None
    assert decision.store.transition is not None
    assert (decision.store.transition.step, decision.store.transition.target) == (Step.FREEZE, "db-1")


def test_the_only_member_restarts_in_place():
    policy = replace(POLICY, members=("db-0",))
    state = replace(STATE, quorum=Quorum(("db-0",), 0))
    alone = leading(restart_required=("innodb_log_file_size",), ack_count=0, semi_sync_source=False)
    (action,) = watch(alone, policy=policy, state=state).actions
    assert isinstance(action, Restart)


def test_a_member_leaves_after_its_clients():
    policy = replace(POLICY, members=NAMES[:2])
    state = replace(STATE, changing=True)
    leaver = following("db-2")
    steps = [
        watch(leading(), following("db-1"), each, policy=policy, state=state).actions
        for each in (leaver, replace(leaver, draining=True), replace(leaver, draining=True, drained=True))
    ]
    assert [type(action) for actions in steps for action in actions] == [Drain, StopReplication]


@pytest.mark.parametrize("name", ["read-only", "READ_ONLY", "rpl_semi_sync_master_enabled", "skip-log-bin", "a b"])
def test_variables_that_safety_rests_on_are_refused(name):
    assert refusal(name, "OFF")


def test_every_variable_that_the_operator_sets_is_reserved(tmp_path):
    file = tmp_path / "none"
    options = ServerOptions(1, "m-0", user="mysql", tls_certificate=file, tls_key=file, tls_authority=file)
    text = MariaDB().configuration(Layout(tmp_path, tmp_path), options)
    names = {spelled(line.partition(" = ")[0]) for line in text.splitlines()[1:]}
    tunable = {"innodb_buffer_pool_size", "performance_schema", "slave_parallel_threads", "slave_parallel_mode"}
    assert names - tunable <= RESERVED


@simulated(seed=31)
async def test_a_changed_config_is_set_live_and_restarts_members_one_after_the_other(simulation):
    servers = await running(simulation)
    config = {"max_connections": "200", "innodb_log_file_size": "64M"}
    cluster = await fetched(simulation)
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": {"config": config}}), namespace="default")
    await simulation.passes(seconds=120)
    status = (await fetched(simulation)).status
    assert status.phase == "Running"
    assert status.primary != cluster.status.primary
    assert {member.settings_revision for member in servers.members.values()} == {revision(config)}
    restarted = [action.member for action in servers.actions if isinstance(action, Restart)]
    assert sorted(restarted) == ["db-0", "db-1", "db-2"]
    assert restarted[-1] == "db-0"


@simulated(seed=32)
async def test_a_smaller_cluster_drains_the_member_and_takes_it_from_the_service_first(simulation):
    servers = await running(simulation)
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": {"size": 2}}), namespace="default")
    await simulation.passes(seconds=60)
    kinds = [type(action) for action in servers.actions if action.member == "db-2"]
    assert kinds.index(Drain) < kinds.index(StopReplication)
    status = (await fetched(simulation)).status
    assert status.quorum is not None
    assert status.quorum.members == ("db-0", "db-1")
    pods = await simulation.client.list(Pod, namespace="default")
    assert sorted(pod.metadata.name for pod in pods) == ["db-0", "db-1"]
    assert all(pod.metadata.labels.get(ROLE_LABEL) for pod in pods)


@simulated(seed=33)
async def test_a_refused_variable_is_reported_and_does_not_stop_a_failover(simulation):
    servers = await running(simulation)
    config = {"max_connections": "200", "read-only": "OFF"}
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": {"config": config}}), namespace="default")
    await simulation.passes(seconds=20)
    assert {member.settings_revision for member in servers.members.values()} == {revision({"max_connections": "200"})}
    servers.crash("db-0")
    await simulation.passes(seconds=30)
    status = (await fetched(simulation)).status
    assert status.primary in ("db-1", "db-2")
    (blocked,) = [each for each in status.conditions if each.type == "UpdateBlocked"]
    assert "spec.config.read-only: is set by the operator" in blocked.message
