"""Metrics of Brokers and transfers: a scrape has the values of the last reconciles."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import CollectorRegistry
from steersman import Condition, Key

from rocketmq.api.v1.broker_types import BrokerStatus, GroupStatus
from rocketmq.brokers.observation import Observation
from rocketmq.metrics import EXPIRY_SECONDS, RocketMQMetrics
from tests.test_broker_plan import NOW, broker, group

KEY = Key("shop", "mq")
OF_MQ = {"namespace": "shop", "broker": "mq"}


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def scraped():
    clock = Clock()
    metrics, registry = RocketMQMetrics(clock), CollectorRegistry()
    registry.register(metrics)
    return metrics, clock, lambda name, **labels: registry.get_sample_value(f"steersman_rocketmq_{name}", labels)


def status(*masters, without_master_since=None):
    groups = tuple(GroupStatus(name=f"mq-{index}", master=master) for index, master in enumerate(masters))
    lost = without_master_since is not None
    elected = Condition(
        type="MasterElected", status="False" if lost else "True", last_transition_time=without_master_since or NOW
    )
    return BrokerStatus(groups=groups, conditions=(elected,))


def test_a_scrape_shows_masters_members_in_sync_and_load_of_each_group():
    metrics, _, value = scraped()
    of = broker(groups=[0, 1], size=2)
    load = {"put_tps": 12.5, "disk_percent": 40.0}
    seen = Observation((group(of, 0, m0=load), group(of, 1, m0={"answers": False})), NOW)
    metrics.record(KEY, status("a", "b"), status("a", "b"), seen)
    assert value("masters", **OF_MQ) == 1
    assert value("groups", **OF_MQ) == 2
    assert value("in_sync_members", **OF_MQ, group="0") == 3
    assert value("in_sync_members", **OF_MQ, group="1") == 0
    assert value("members", **OF_MQ, group="1") == 3
    assert value("put_messages_per_second", **OF_MQ, group="0") == 12.5
    assert value("disk_used_ratio", **OF_MQ, group="0") == 0.4
    assert value("disk_used_ratio", **OF_MQ, group="1") is None


def test_each_change_of_a_master_is_counted_and_the_first_master_is_none():
    metrics, _, value = scraped()
    seen = Observation((), NOW)
    for before, after in [("", "a"), ("a", "a"), ("a", "b"), ("b", "a")]:
        metrics.record(KEY, status(before), status(after), seen)
    assert value("master_switches_total", **OF_MQ) == 2


def test_the_time_without_a_master_counts_from_the_change_of_the_condition():
    metrics, _, value = scraped()
    seen = Observation((), NOW)
    metrics.record(KEY, status("a"), status("a", without_master_since=NOW - timedelta(seconds=7)), seen)
    assert value("out_of_write_seconds", **OF_MQ) == 7
    metrics.record(KEY, status("a"), status("a"), seen)
    assert value("out_of_write_seconds", **OF_MQ) == 0


def test_lag_and_topics_that_are_gone_are_not_shown_any_more():
    metrics, _, value = scraped()
    metrics.record_load(KEY, {("readers", "orders"): 5}, {"orders": 9})
    assert value("consumer_lag", **OF_MQ, consumer_group="readers", topic="orders") == 5
    assert value("topic_messages_end", **OF_MQ, topic="orders") == 9
    metrics.record_load(KEY, {}, {"bills": 1})
    assert value("consumer_lag", **OF_MQ, consumer_group="readers", topic="orders") is None
    assert value("topic_messages_end", **OF_MQ, topic="orders") is None


def test_objects_that_are_not_reconciled_any_more_expire():
    metrics, clock, value = scraped()
    metrics.record(KEY, status("a"), status("a"), Observation((), NOW))
    metrics.record_transfer(KEY, "Drain")
    step = {"namespace": "shop", "transfer": "mq", "phase": "Drain"}
    assert value("topic_transfer_step", **step) == 1
    clock.seconds = EXPIRY_SECONDS
    assert value("groups", **OF_MQ) == 0
    clock.seconds += 1
    assert value("groups", **OF_MQ) is None
    assert value("topic_transfer_step", **step) is None


def test_a_transfer_is_in_one_phase():
    metrics, _, value = scraped()
    metrics.record_transfer(KEY, "StopWrite")
    metrics.record_transfer(KEY, "Drain")
    assert value("topic_transfer_step", namespace="shop", transfer="mq", phase="StopWrite") is None


def test_a_group_that_left_has_no_series():
    metrics, _, value = scraped()
    of = broker(groups=[0, 1], size=2)
    both, one = Observation((group(of, 0), group(of, 1)), NOW), Observation((group(of, 0),), NOW)
    metrics.record(KEY, status("a", "b"), status("a", "b"), both)
    metrics.record(KEY, status("a", "b"), status("a"), one)
    assert value("in_sync_members", **OF_MQ, group="1") is None
