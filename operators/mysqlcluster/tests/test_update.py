"""Upgrades: a canary with analysis, rollback by a copy, the primary last, and refusals with reasons."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from steersman import MergePatch
from steersman.k8s import Pod, StatefulSet
from steersman.k8s.events_v1 import Event
from steersman.testing import simulated

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.machine import ClusterState, Policy, Quorum
from mysqlcluster.machine.update import START_SECONDS, Phase, Rollout, Rules, plan
from mysqlcluster.observation import MemberState, Observation, unreachable
from mysqlcluster.versions import upgrade_refusal

from .test_controller import fetched, running
from .test_failover_policy import NAMES, primary, replica

OLD, NEW = "steersman/mariadb:10.11", "steersman/mariadb:11.8"
STATE = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))
POLICY = Policy(NAMES, max_ack_count=1)
RULES = Rules(image=NEW, version="11.8", analysis_seconds=10.0, max_error_rate=0.1, max_lag_seconds=5.0)
IDLE = Rollout(image=OLD)
ANALYSIS = Rollout(image=OLD, target=NEW, phase=Phase.ANALYSIS, canary="db-2", started_at=95.0, sampled_at=98.0)
V1, V2 = "10.11.19-MariaDB", "11.8.9-MariaDB"


def following(name: str, version: str = V1, **more: object) -> MemberState:
    return replace(replica(name), io_running=True, version=version, lag_seconds=0.0, **more)


WHOLE = (replace(primary(), version=V1), following("db-1"), following("db-2"))


def step(rollout: Rollout, *members: MemberState, outdated=(), rules=RULES, state=STATE, time=100.0):
    return plan(rules, rollout, POLICY, state, Observation(members or WHOLE, time), tuple(outdated))


def test_an_upgrade_begins_with_one_replica():
    store = step(IDLE).store
    assert store is not None
    assert (store.phase, store.canary, store.template) == (Phase.CANARY, "db-2", NEW)
    assert step(store, outdated=NAMES).replace == "db-2"


def test_without_a_canary_the_replicas_come_first():
    store = step(IDLE, rules=replace(RULES, strategy="Rolling")).store
    assert store is not None
    assert store.phase is Phase.ROLLING
    assert step(store, outdated=NAMES).replace == "db-2"
    assert step(store, outdated=NAMES[:2]).replace == "db-1"
    assert step(store, outdated=NAMES[:1]).switch


def test_on_delete_the_user_replaces_the_pods():
    rolling = Rollout(image=OLD, target=NEW, phase=Phase.ROLLING)
    step_ = step(rolling, outdated=NAMES, rules=replace(RULES, strategy="OnDelete"))
    assert (step_.replace, step_.switch) == ("", False)
    assert "delete the Pods db-0, db-1, db-2" in step_.blocked


def test_nothing_begins_and_no_further_pod_is_replaced_while_a_member_is_missing():
    missing = (WHOLE[0], WHOLE[1], unreachable("db-2"))
    assert step(IDLE, *missing).store is None
    assert "waits until every member replicates" in step(IDLE, *missing).blocked
    rolling = Rollout(image=OLD, target=NEW, phase=Phase.ROLLING)
    assert step(rolling, *missing, outdated=NAMES[:2]) == step(Rollout(image=NEW), *missing)


@pytest.mark.parametrize(
    ("current", "wanted", "says"),
    [
        (V1, "11.8", ""),
        (V1, "10.11", ""),
        ("", "12.3", ""),
        (V2, "10.11", "cannot be downgraded"),
        (V1, "12.3", "upgrade to one of 11.4, 11.8 first"),
        (V2, "12.3", "restore a backup into a new cluster"),
    ],
)
def test_downgrades_and_jumps_are_refused_with_the_way_out(current, wanted, says):
    refusal = upgrade_refusal(current, wanted)
    assert says in refusal
    assert bool(says) == bool(refusal)


def test_a_refused_upgrade_leaves_the_template_alone():
    refused = step(IDLE, rules=replace(RULES, version="12.3", image="steersman/mariadb:12.3"))
    assert refused.store is None
    assert "is not supported" in refused.blocked
    assert IDLE.template == OLD


def test_the_canary_is_sampled_and_passes():
    sampled = step(ANALYSIS).store
    assert sampled is not None
    assert (sampled.samples, sampled.errors) == (1, 0)
    passed = step(sampled, time=105.0)
    assert passed.store is not None
    assert passed.store.phase is Phase.ROLLING
    assert [notice.reason for notice in passed.notices] == ["CanaryPassed"]


@pytest.mark.parametrize(
    ("rollout", "canary", "says"),
    [
        pytest.param(replace(ANALYSIS, samples=9, errors=1), following("db-2"), "1 of 9 probes", id="errors"),
        pytest.param(ANALYSIS, replace(following("db-2"), lag_seconds=6.0), "lags 6 s", id="lag"),
        pytest.param(ANALYSIS, unreachable("db-2"), "does not replicate", id="gone"),
        pytest.param(ANALYSIS, following("db-2", sql_error="1062: Duplicate"), "cannot apply", id="broken replication"),
        pytest.param(
            replace(ANALYSIS, samples=10, canary_seconds=9.0, others_seconds=0.1),
            following("db-2"),
            "a probe of db-2 takes 0.90 s",
            id="latency",
        ),
    ],
)
def test_a_canary_that_fails_is_rolled_back(rollout, canary, says):
    failed = step(rollout, WHOLE[0], WHOLE[1], canary, time=105.0).store
    assert failed is not None
    assert (failed.phase, failed.template) == (Phase.ROLLING_BACK, OLD)
    assert says in failed.message
    assert step(failed, outdated=["db-2"]).replace == "db-2"
    done = step(failed)
    assert done.store is not None
    assert done.store.phase is Phase.FAILED
    assert [notice.reason for notice in done.notices] == ["CanaryRolledBack"]
    assert says in step(done.store).blocked
    again = step(done.store, rules=replace(RULES, image="steersman/mariadb:11.4", version="11.4")).store
    assert again == Rollout(image=OLD)


def test_without_rollback_the_canary_stays_as_it_is():
    failed = step(replace(ANALYSIS, samples=9, errors=1), rules=replace(RULES, auto_rollback=False), time=105.0).store
    assert failed is not None
    assert failed.phase is Phase.FAILED


def test_a_canary_that_never_comes_up_is_rolled_back():
    starting = Rollout(image=OLD, target=NEW, phase=Phase.CANARY, canary="db-2", started_at=100.0)
    members = (WHOLE[0], WHOLE[1], unreachable("db-2"))
    assert step(starting, *members).store is None
    failed = step(starting, *members, time=100.0 + START_SECONDS).store
    assert failed is not None
    assert failed.phase is Phase.ROLLING_BACK


def test_there_is_no_way_back_after_the_canary_became_the_primary():
    state = replace(STATE, primary="db-2")
    forward = step(ANALYSIS, state=state).store
    assert forward is not None
    assert forward.phase is Phase.ROLLING
    back = replace(ANALYSIS, phase=Phase.ROLLING_BACK)
    assert step(back, state=state, outdated=["db-2"]).replace == ""
    assert step(back, state=state, outdated=["db-2"]).switch


async def images(simulation) -> dict[str, str]:
    pods = await simulation.client.list(Pod, namespace="default")
    return {pod.metadata.name: pod.spec.containers[0].image for pod in pods}


async def upgrade(simulation, servers, version: str) -> None:
    for name, member in servers.members.items():
        servers.members[name] = replace(member, version="11.8.9-MariaDB")
    spec = {"version": version, "image": f"steersman/mariadb:{version}", "update": {"canary": {"analysisSeconds": 20}}}
    await simulation.client.patch(MySQLCluster, "db", MergePatch({"spec": spec}), namespace="default")


async def reasons(simulation) -> set[str]:
    return {each.reason for each in await simulation.client.list(Event, namespace="default")}


@simulated(seed=41)
async def test_an_upgrade_replaces_the_primary_last_after_a_switchover(simulation):
    servers = await running(simulation)
    await upgrade(simulation, servers, "11.8.10")
    await simulation.passes(seconds=15)
    assert sorted((await images(simulation)).values()).count("steersman/mariadb:11.8.10") == 1
    assert (await fetched(simulation)).status.phase == "Updating"
    await simulation.passes(seconds=200)
    assert set((await images(simulation)).values()) == {"steersman/mariadb:11.8.10"}
    status = (await fetched(simulation)).status
    assert (status.phase, status.update.phase, status.update.image) == ("Running", "Idle", "steersman/mariadb:11.8.10")
    assert status.primary != "db-0"
    assert {"CanaryPassed", "SwitchoverCompleted"} <= await reasons(simulation)


@simulated(seed=42)
async def test_a_broken_canary_is_rolled_back_and_the_other_members_never_change(simulation):
    servers = await running(simulation)
    before = set((await images(simulation)).values())
    await upgrade(simulation, servers, "11.8.10")
    await simulation.passes(seconds=10)
    canary = (await fetched(simulation)).status.update.canary
    servers.members[canary] = replace(servers.members[canary], sql_running=False, sql_error="1062: Duplicate entry")
    await simulation.passes(seconds=10)
    servers.members[canary] = replace(servers.members[canary], sql_running=True, sql_error="")
    await simulation.passes(seconds=60)
    status = (await fetched(simulation)).status
    assert status.update.phase == "Failed"
    assert status.primary == "db-0"
    assert set((await images(simulation)).values()) == before
    (blocked,) = [each for each in status.conditions if each.type == "UpdateBlocked"]
    assert (blocked.status, "Duplicate entry" in blocked.message) == ("True", True)
    assert "CanaryRolledBack" in await reasons(simulation)


@simulated(seed=43)
async def test_a_refused_version_changes_no_pod(simulation):
    servers = await running(simulation)
    await upgrade(simulation, servers, "10.11")
    await simulation.passes(seconds=60)
    status = (await fetched(simulation)).status
    (blocked,) = [each for each in status.conditions if each.type == "UpdateBlocked"]
    assert "cannot be downgraded" in blocked.message
    assert status.phase == "Running"
    found = await simulation.client.get(StatefulSet, "db", namespace="default")
    assert found.spec.template.spec.containers[0].image == "steersman/mariadb:11.8"
