"""The rotation of passwords: its steps as a pure function, and the operator with simulated servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from steersman import MergePatch
from steersman.k8s import Secret
from steersman.k8s.events_v1 import Event
from steersman.testing import simulated

from mysqlcluster import credentials
from mysqlcluster.actions import CreateAccounts, Reconnect
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster, PasswordStatus
from mysqlcluster.machine import ClusterState, Kind, Quorum, Step, Transition
from mysqlcluster.observation import MemberState, Observation
from mysqlcluster.rotation import OVERLAP, RETIRE, ROTATE, next_step

from .test_controller import fetched, running
from .test_failover_policy import NAMES, primary, replica

STATE = ClusterState(primary="db-0", epoch=3, quorum=Quorum(NAMES, 1))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORMER = PasswordStatus(revision="old", changed_at="2025-01-01T00:00:00Z")


def seen(leader: str, *followers: str) -> Observation:
    first = replace(primary(), accounts_revision=leader)
    others = [
        replace(replica(name), io_running=True, sql_running=True, replication_revision=revision)
        for name, revision in zip(NAMES[1:], followers, strict=True)
    ]
    return Observation((first, *others), 100.0)


def test_the_primary_gets_the_new_passwords_first_and_keeps_the_former_ones():
    step = next_step(FORMER, "new", STATE, seen("old", "old", "old"), NOW)
    assert step.action == CreateAccounts(member="db-0", epoch=3, revision="new")


def test_one_replica_reconnects_at_a_time():
    step = next_step(FORMER, "new", STATE, seen("new", "old", "old"), NOW)
    assert step.action == Reconnect(member="db-1", epoch=3, revision="new")
    step = next_step(FORMER, "new", STATE, seen("new", "new", "old"), NOW)
    assert step.action == Reconnect(member="db-2", epoch=3, revision="new")


def test_no_replica_reconnects_while_another_one_does_not_replicate_or_the_primary_changes():
    members = seen("new", "old", "old").members
    stopped: MemberState = replace(members[2], io_running=False)
    assert next_step(FORMER, "new", STATE, Observation((*members[:2], stopped), 100.0), NOW).action is None
    moving = replace(STATE, transition=Transition(Kind.FAILOVER, Step.SUSPECT, 3, source="db-0", started_at=1.0))
    assert next_step(FORMER, "new", moving, Observation(members, 100.0), NOW).action is None


def test_the_former_passwords_end_after_the_overlap_or_on_request():
    all_new = seen("new", "new", "new")
    step = next_step(FORMER, "new", STATE, all_new, NOW)
    assert (step.completed, step.action) == (True, None)
    assert step.status == PasswordStatus(revision="new", changed_at="2026-01-01T00:00:00Z", former_valid=True)
    retired = CreateAccounts(member="db-0", epoch=3, revision="new", retire_old=True)
    early, late = NOW + OVERLAP - timedelta(seconds=1), NOW + OVERLAP
    assert next_step(step.status, "new", STATE, all_new, early).action is None
    assert next_step(step.status, "new", STATE, all_new, late).action == retired
    ended = next_step(step.status, "new", STATE, all_new, early, retire="new")
    assert (ended.action, ended.status.former_valid) == (retired, False)


def test_a_new_cluster_accepts_no_password_of_the_cluster_that_its_data_comes_from():
    step = next_step(PasswordStatus(), "new", STATE, seen("", "", ""), NOW)
    assert step.action == CreateAccounts(member="db-0", epoch=3, revision="new", retire_old=True)


@simulated(seed=11)
async def test_an_annotation_gives_every_account_a_new_password_once(simulation):
    servers = await running(simulation)
    before = (await simulation.client.get(Secret, "db-accounts", namespace="default")).data
    first = (await fetched(simulation)).status.passwords
    assert first is not None
    assert first.revision == credentials.revision(before)
    servers.actions.clear()

    await annotate(simulation, ROTATE, "january")
    await simulation.passes(seconds=60)
    after = (await simulation.client.get(Secret, "db-accounts", namespace="default")).data
    assert {key for key in after if after[key] != before[key]} == set(credentials.PASSWORDS)
    rotated = [each for each in servers.actions if isinstance(each, CreateAccounts | Reconnect)]
    assert [(type(each).__name__, each.member) for each in rotated] == [
        ("CreateAccounts", "db-0"),
        ("Reconnect", "db-1"),
        ("Reconnect", "db-2"),
    ]
    status = (await fetched(simulation)).status.passwords
    assert status is not None
    assert (status.revision, status.former_valid) == (credentials.revision(after), True)

    servers.actions.clear()
    await annotate(simulation, RETIRE, status.revision)
    await simulation.passes(seconds=60)
    (ended,) = [each for each in servers.actions if isinstance(each, CreateAccounts)]
    assert ended.retire_old
    assert (await simulation.client.get(Secret, "db-accounts", namespace="default")).data == after
    events = await simulation.client.list(Event, namespace="default")
    text = str(list(events))
    assert "PasswordsRotated" in text
    assert not any(value.decode() in text for value in (*before.values(), *after.values()))


async def annotate(simulation, name: str, value: str) -> None:
    patch = MergePatch({"metadata": {"annotations": {name: value}}})
    await simulation.client.patch(MySQLCluster, "db", patch, namespace="default")
