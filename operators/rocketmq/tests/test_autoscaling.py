"""Autoscaling of the groups of a Broker by message rate and disk usage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from steersman import replace as evolve

from rocketmq.brokers.autoscaling import Scaling, autoscale
from rocketmq.brokers.observation import Observation
from tests.test_broker_plan import NOW, broker, group

LIMITS = {"enabled": True, "min_groups": 2, "max_groups": 4, "target_put_tps": 1000}


def scaled(size, rate=0.0, disk=0.0, *, below_seconds=None, joined=None, masters=None, extra=0, **limits):
    of = broker(groups=range(size if joined is None else joined), size=size)
    of = evolve(of, spec=evolve(of.spec, autoscaling=evolve(of.spec.autoscaling, **(LIMITS | limits))))
    if below_seconds is not None:
        of = evolve(of, status=evolve(of.status, below_since=NOW - timedelta(seconds=below_seconds)))
    load = {"put_tps": rate, "disk_percent": disk}
    groups = [group(of, index, m0=load) for index in range(size + extra)]
    if masters is not None:
        groups = [each if each.index < masters else replace(each, members=each.members[1:]) for each in groups]
    return autoscale(of, Observation(tuple(groups), NOW))


def test_nothing_changes_while_it_is_off():
    assert scaled(2, rate=9000, enabled=False) == Scaling(2)


@pytest.mark.parametrize(("size", "to"), [(1, 2), (6, 4)])
def test_a_size_beyond_the_limits_is_brought_within_them(size, to):
    assert scaled(size).size == to


@pytest.mark.parametrize(("rate", "to"), [(1000, 2), (1001, 3), (1600, 4), (9000, 4)])
def test_groups_are_added_for_the_rate_of_messages_up_to_the_limit(rate, to):
    assert scaled(2, rate=rate).size == to


def test_one_group_is_added_when_the_disks_are_full():
    found = scaled(2, disk=71)
    assert found == Scaling(3, reason="the disks are 71 % full on average")
    assert scaled(2, disk=70).size == 2


def test_a_rate_has_no_say_without_a_target():
    assert scaled(2, rate=9000, target_put_tps=None).size == 2


def test_a_group_leaves_only_after_fewer_were_enough_for_a_while():
    first = scaled(3, rate=10, disk=10)
    assert first == Scaling(3, NOW)
    assert scaled(3, rate=10, disk=10, below_seconds=599) == Scaling(3, NOW - timedelta(seconds=599))
    assert scaled(3, rate=10, disk=10, below_seconds=600).size == 2


@pytest.mark.parametrize("load", [{"rate": 540}, {"disk": 38}], ids=["rate", "disk"])
def test_no_group_leaves_when_the_others_would_come_near_their_targets(load):
    assert scaled(3, below_seconds=9999, **load) == Scaling(3)


def test_the_smallest_number_of_groups_stays():
    assert scaled(2, below_seconds=9999) == Scaling(2)


@pytest.mark.parametrize(
    "state", [{"joined": 1}, {"masters": 1}, {"extra": 1}], ids=["new group", "no master", "leaving"]
)
def test_nothing_changes_while_groups_change(state):
    assert scaled(2, rate=9000, **state) == Scaling(2)
