"""The stage Sync of a Broker: the order of steps, and steps that must not happen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from steersman import ObjectMeta
from steersman import replace as evolve

from rocketmq.api.v1.broker_types import Broker, BrokerSpec, BrokerStatus, DrainStatus, GroupStatus
from rocketmq.brokers.children import RESTART_HASH, config_map, stateful_set
from rocketmq.brokers.elections import MIN_IN_SYNC, REFUSE_MESSAGES
from rocketmq.brokers.names import Member, members_of
from rocketmq.brokers.observation import GroupState, MemberState, Observation
from rocketmq.brokers.plan import (
    ApplyMember,
    Configure,
    CopyTo,
    HandOver,
    Plan,
    RemoveGroup,
    RemoveMember,
    plan,
)
from rocketmq.brokers.settings import Endpoints, is_applied, live, settings_of
from rocketmq.brokers.status import status
from tests.java_properties import load_properties

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINTS = Endpoints(("ns-0:9876",))


def broker(*, groups=(), **spec):
    fields = {"broker_image": "b", "replica_per_group": 2, "storage_mode": "EmptyDir"} | spec
    known = tuple(GroupStatus(name=f"mq-{index}", joined=True) for index in groups)
    return Broker(
        metadata=ObjectMeta(name="mq", namespace="shop"), spec=BrokerSpec(**fields), status=BrokerStatus(groups=known)
    )


def group(of, index, master=0, **changes):
    """A healthy group, with changes of members by `m0`, `m1` and so on."""
    states = []
    for member in members_of(of, index):
        settings = live(settings_of(of, member, ENDPOINTS, writable=index < of.spec.size))
        state = MemberState(
            member,
            exists=True,
            ready=True,
            answers=True,
            is_master=member.index == master,
            offset=100,
            settings=settings,
        )
        states.append(replace(state, **changes.get(f"m{member.index}", {})))
    return GroupState(index, tuple(states))


def steps(of, *groups, endpoints=ENDPOINTS):
    return plan(of, Observation(groups, NOW), endpoints).steps


OUTDATED = {"outdated": True}


def test_a_new_broker_gets_all_its_members():
    found = steps(broker(size=2), GroupState(0, ()), GroupState(1, ()))
    assert found == tuple(ApplyMember(Member(g, m), "missing") for g in range(2) for m in range(3))


def test_a_broker_at_which_all_is_well_needs_nothing():
    of = broker(groups=[0])
    assert steps(of, group(of, 0)) == ()


def test_replicas_restart_one_after_the_other_and_before_the_master():
    of = broker(groups=[0])
    assert steps(of, group(of, 0, m0=OUTDATED, m1=OUTDATED, m2=OUTDATED)) == (ApplyMember(Member(0, 2), "changed"),)
    assert steps(of, group(of, 0, m0=OUTDATED, m1=OUTDATED)) == (ApplyMember(Member(0, 1), "changed"),)


@pytest.mark.parametrize("mode", ["DLEDGER", "CONTROLLER"])
def test_a_master_hands_over_before_it_restarts(mode):
    of = broker(groups=[0], cluster_mode=mode)
    assert steps(of, group(of, 0, m0=OUTDATED)) == (HandOver(Member(0, 0), Member(0, 1)),)


def test_a_static_master_restarts_without_a_successor():
    of = broker(groups=[0], cluster_mode="STATIC")
    assert steps(of, group(of, 0, m0=OUTDATED)) == (ApplyMember(Member(0, 0), "changed"),)


@pytest.mark.parametrize(
    "trouble",
    [{"offset": 99}, {"answers": False}, {"ready": False}, {"is_master": True}],
    ids=["behind", "silent", "not ready", "second master"],
)
def test_no_member_restarts_while_another_is_not_in_sync(trouble):
    of = broker(groups=[0])
    found = plan(of, Observation((group(of, 0, m1=trouble, m2=OUTDATED),), NOW), ENDPOINTS)
    assert found.steps == ()
    assert found.waiting


def test_a_master_accepts_messages_again_only_if_the_controllers_report_it_as_the_master():
    of = broker(groups=[0], cluster_mode="CONTROLLER")
    member = Member(0, 0)
    refusing = live(settings_of(of, member, ENDPOINTS)) | {MIN_IN_SYNC: REFUSE_MESSAGES}
    state = replace(group(of, 0, m0={"settings": refusing}), in_sync=frozenset(members_of(of, 0)))
    restore = (Configure(member, {MIN_IN_SYNC: "2"}),)
    assert steps(of, state) == ()
    assert steps(of, replace(state, elected=Member(0, 1))) == ()
    assert steps(of, replace(state, elected=member)) == restore
    follower = group(of, 0, master=1, m0={"settings": refusing})
    assert steps(of, replace(follower, elected=Member(0, 1))) == restore


def test_no_member_restarts_while_the_controllers_do_not_list_all_in_sync():
    of = broker(groups=[0], cluster_mode="CONTROLLER")
    state = replace(group(of, 0, m2=OUTDATED), in_sync=frozenset({Member(0, 0), Member(0, 2)}))
    assert steps(of, state) == ()


def test_an_outdated_member_that_does_not_run_is_changed_at_once():
    of = broker(groups=[0])
    broken = {"outdated": True, "ready": False, "answers": False}
    assert steps(of, group(of, 0, m0=OUTDATED, m1=broken)) == (ApplyMember(Member(0, 1), "changed_and_not_ready"),)


def test_groups_restart_one_after_the_other():
    of = broker(groups=[0, 1], size=2)
    found = steps(of, group(of, 0, m1={"offset": 1}), group(of, 1, m2=OUTDATED))
    assert found == ()


def test_nothing_restarts_where_restarts_are_not_allowed():
    of = broker(groups=[0], allow_restart=False)
    found = plan(of, Observation((group(of, 0, m2=OUTDATED),), NOW), ENDPOINTS)
    assert (found.steps, found.waiting) == ((), "allowRestart is false, and the change needs a restart")


def test_name_servers_that_change_are_told_to_running_brokers():
    of = broker(groups=[0])
    found = steps(of, group(of, 0), endpoints=Endpoints(("ns-0:9876", "ns-1:9876")))
    assert found == tuple(Configure(Member(0, m), {"namesrvAddr": "ns-0:9876;ns-1:9876"}) for m in range(3))


def test_a_broker_gets_no_setting_that_it_has_read_from_its_file():
    of = broker(groups=[0], config={"fileReservedTime": "72", "messageDelayLevel": "1s 5s", "deleteWhen": "04=\\"})
    texts = config_map(of, 0, ENDPOINTS).data
    read = {f"m{index}": {"settings": load_properties(texts[f"mq-0-{index}-0.conf"])} for index in range(3)}
    assert read["m0"]["settings"]["namesrvAddr"] == "ns-0:9876"
    assert steps(of, group(of, 0, **read)) == ()


@pytest.mark.parametrize(
    ("wanted", "reported", "applied"),
    [
        ("72", "72", True),
        ("+072", "72", True),
        ("72", "48", False),
        ("TRUE", "true", True),
        ("yes", "false", True),
        ("true", "false", False),
        ("x", None, False),
        ("04", "4h", False),
    ],
)
def test_a_value_in_the_form_of_the_broker_is_the_same_value(wanted, reported, applied):
    assert is_applied(wanted, reported) is applied


def test_a_live_setting_needs_no_restart_and_another_one_does():
    def hash_with(**config):
        child = stateful_set(broker(config=config), Member(0, 0), ENDPOINTS)
        return child.metadata.annotations[RESTART_HASH]

    assert hash_with(fileReservedTime="1") == hash_with(fileReservedTime="2")
    assert hash_with(sendMessageThreadPoolNums="1") != hash_with(sendMessageThreadPoolNums="2")


def test_a_new_group_gets_the_topics_of_one_that_has_joined():
    of = broker(groups=[0], size=2)
    found = plan(of, Observation((group(of, 0), group(of, 1)), NOW), ENDPOINTS)
    assert found.steps == (CopyTo(Member(0, 0), Member(1, 0), 1),)
    assert found.joined == {0}


def test_the_first_group_has_nothing_to_copy():
    of = broker()
    assert plan(of, Observation((group(of, 0),), NOW), ENDPOINTS).joined == {0}


@pytest.mark.parametrize(("joined", "phase"), [({0}, "Scaling"), ({0, 1}, "Running")], ids=["a new group", "joined"])
def test_a_broker_scales_until_its_new_group_has_the_topics_of_the_others(joined, phase):
    of = broker(groups=[0], size=2)
    seen = Observation((group(of, 0), group(of, 1)), NOW)
    assert status(of, seen, Plan(), frozenset(joined), ENDPOINTS, ()).phase == phase


def test_the_spec_may_change_the_heartbeat_timeout_of_mode_controller():
    name = "controllerHeartBeatTimeoutMills"
    of = broker(cluster_mode="CONTROLLER")
    assert settings_of(of, Member(0, 0), ENDPOINTS)[name] == "6000"
    of = broker(cluster_mode="CONTROLLER", config={name: "9000"})
    assert settings_of(of, Member(0, 0), ENDPOINTS)[name] == "9000"
    assert name not in settings_of(broker(), Member(0, 0), ENDPOINTS)


def test_topics_come_from_the_pod_that_the_user_chose():
    of = broker(groups=[0], size=2, scale_pod_name="mq-0-2-0")
    assert steps(of, group(of, 0), group(of, 1)) == (CopyTo(Member(0, 2), Member(1, 0), 1),)


def leaving(*, lag=0, quiet=60, offset=100, writable=False, delayed=0):
    of = broker(groups=[0], size=1)
    drain = DrainStatus(offset=100, unchanged_since=NOW - timedelta(seconds=quiet))
    old = (*of.status.groups, GroupStatus(name="mq-1", joined=True, drain=drain))
    of = evolve(of, status=BrokerStatus(groups=old))
    state = group(of, 1, m0={"offset": offset, "delayed": delayed})
    if writable:
        state = group(broker(size=2), 1)
    return plan(of, Observation((group(of, 0), replace(state, lag=lag)), NOW), ENDPOINTS)


def test_a_group_that_leaves_is_made_read_only_first():
    found = leaving(writable=True)
    assert found.steps == tuple(Configure(Member(1, m), {"brokerPermission": "4"}) for m in range(3))


def test_a_group_that_is_drained_is_removed():
    assert leaving().steps == (RemoveGroup(1),)


@pytest.mark.parametrize(
    "work", [{"lag": 3}, {"lag": None}, {"quiet": 10}, {"offset": 101}, {"delayed": 1}],
    ids=["unread", "unknown", "recent messages", "a new message", "delayed messages"],
)  # fmt: skip
def test_a_group_with_messages_stays(work):
    found = leaving(**work)
    assert found.steps == ()
    assert found.waiting


def test_a_group_without_a_master_stays():
    of = broker(groups=[0, 1], size=1)
    state = replace(group(of, 1, m0={"answers": False}), lag=0)
    found = plan(of, Observation((group(of, 0), state), NOW), ENDPOINTS)
    assert found.steps == ()
    assert "has no master" in found.waiting


def test_a_master_that_the_spec_has_no_place_for_hands_over_and_then_leaves():
    bigger, of = broker(groups=[0], cluster_mode="CONTROLLER", min_in_sync_replicas=1), None
    of = evolve(bigger, spec=evolve(bigger.spec, replica_per_group=1))
    assert steps(of, group(bigger, 0, master=2)) == (HandOver(Member(0, 2), Member(0, 0)),)
    assert steps(of, group(bigger, 0, master=0)) == (RemoveMember(Member(0, 2)),)
