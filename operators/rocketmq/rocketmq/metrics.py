"""Metrics of Brokers and TopicTransfers; a scrape reads the values that the last reconcile of each object stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from steersman import Key
from steersman.metrics import REGISTRY

from rocketmq.api.v1.broker_types import BrokerStatus
from rocketmq.brokers.observation import GroupState, Observation

__all__ = ["METRICS", "BrokerSamples", "RocketMQMetrics", "samples_of"]

PREFIX = "steersman_rocketmq_"
BROKER = ("namespace", "broker")
EXPIRY_SECONDS = 120.0
"""Time without a reconcile after which the metrics of an object are removed, because it was deleted or they are
outdated."""


@dataclass(frozen=True)
class BrokerSamples:
    """The values of one Broker."""

    groups: tuple[GroupState, ...] = ()
    seconds_without_master: float = 0.0
    switches: int = 0
    lag: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Messages that consumers have not read, by consumer group and topic."""
    ends: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sums of the ends of the queues, by topic."""


def samples_of(samples: BrokerSamples, before: BrokerStatus, after: BrokerStatus, seen: Observation) -> BrokerSamples:
    """Return the values after a reconcile.

    Args:
        samples: the values before it.
        before: the status before it.
        after: the status after it.
        seen: the groups during it.
    """
    known = {each.name: each.master for each in before.groups}
    switched = sum(known.get(each.name) not in (None, "", each.master) for each in after.groups)
    return replace(
        samples,
        groups=tuple(group for group in seen.groups if group.exists),
        seconds_without_master=_seconds_without_master(after, seen.now),
        switches=samples.switches + switched,
    )


def _seconds_without_master(status: BrokerStatus, now: datetime) -> float:
    lost = [each for each in status.conditions if each.type == "MasterElected" and each.status == "False"]
    since = lost[0].last_transition_time if lost else None
    return (now - since).total_seconds() if since is not None else 0.0


class RocketMQMetrics(Collector):
    """The values of all Brokers and TopicTransfers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without values.

        Args:
            clock: returns the time in seconds.
        """
        self._clock = clock
        self._brokers: dict[Key, BrokerSamples] = {}
        self._phases: dict[Key, str] = {}
        self._recorded: dict[tuple[str, Key], float] = {}

    def record(self, key: Key, before: BrokerStatus, after: BrokerStatus, seen: Observation) -> None:
        """Store the groups of a Broker that a reconcile observed."""
        self._brokers[key] = samples_of(self._brokers.get(key, BrokerSamples()), before, after, seen)
        self._recorded["broker", key] = self._clock()

    def record_load(self, key: Key, lag: Mapping[tuple[str, str], int], ends: Mapping[str, int]) -> None:
        """Store the lag of consumer groups by group and topic, and the ends of topics."""
        self._brokers[key] = replace(self._brokers.get(key, BrokerSamples()), lag=lag, ends=ends)
        self._recorded.setdefault(("broker", key), self._clock())

    def record_transfer(self, key: Key, phase: str) -> None:
        """Store the phase of a transfer."""
        self._phases[key] = phase
        self._recorded["transfer", key] = self._clock()

    def _expire(self) -> None:
        oldest = self._clock() - EXPIRY_SECONDS
        for kind, key in [place for place, recorded in self._recorded.items() if recorded < oldest]:
            del self._recorded[kind, key]
            (self._brokers if kind == "broker" else self._phases).pop(key, None)

    def brokers(self) -> tuple[tuple[Key, BrokerSamples], ...]:
        """Return the values of all Brokers, by namespace and name."""
        self._expire()
        return tuple(sorted(self._brokers.items(), key=lambda item: (item[0].namespace, item[0].name)))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        brokers = self.brokers()
        yield _gauge(
            "masters",
            "Groups that have a master.",
            BROKER,
            ((key, (), sum(group.master is not None for group in each.groups)) for key, each in brokers),
        )
        yield _gauge("groups", "Groups that exist.", BROKER, ((key, (), len(each.groups)) for key, each in brokers))
        yield _gauge(
            "out_of_write_seconds",
            "Time for which a group has had no master; 0 while all groups have one.",
            BROKER,
            ((key, (), each.seconds_without_master) for key, each in brokers),
        )
        switches = CounterMetricFamily(f"{PREFIX}master_switches", "Changes of a master.", labels=BROKER)
        for key, each in brokers:
            switches.add_metric((key.namespace, key.name), each.switches)
        yield switches
        yield from _group_metrics(brokers)
        yield _gauge(
            "consumer_lag",
            "Messages that a consumer group has not read.",
            (*BROKER, "consumer_group", "topic"),
            ((key, names, lag) for key, each in brokers for names, lag in each.lag.items()),
        )
        yield _gauge(
            "topic_messages_end",
            "Sum of the ends of a topic's queues, which grows with each message.",
            (*BROKER, "topic"),
            ((key, (topic,), end) for key, each in brokers for topic, end in each.ends.items()),
        )
        yield _gauge(
            "topic_transfer_step",
            "1 for the phase that a topic transfer is in.",
            ("namespace", "transfer", "phase"),
            ((key, (phase,), 1) for key, phase in tuple(self._phases.items())),
        )


def _group_metrics(brokers: Iterable[tuple[Key, BrokerSamples]]) -> Iterator[Metric]:
    groups = [(key, group) for key, each in brokers for group in each.groups]
    masters = [(key, group.index, group.master) for key, group in groups if group.master is not None]
    labels = (*BROKER, "group")
    yield _gauge(
        "in_sync_members",
        "Members that hold all acknowledged messages.",
        labels,
        ((key, (str(group.index),), len(group.synchronous)) for key, group in groups),
    )
    yield _gauge(
        "members",
        "Members that a group has.",
        labels,
        ((key, (str(group.index),), len(group.members)) for key, group in groups),
    )
    yield _gauge(
        "put_messages_per_second",
        "Messages per second that the master stored, over a minute.",
        labels,
        ((key, (str(index),), master.put_tps) for key, index, master in masters),
    )
    yield _gauge(
        "disk_used_ratio",
        "Used share of the master's disk.",
        labels,
        ((key, (str(index),), master.disk_percent / 100) for key, index, master in masters),
    )


def _gauge(
    name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[Key, tuple[str, ...], float]]
) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=labels)
    for key, more, value in values:
        found.add_metric((key.namespace, key.name, *more), value)
    return found


METRICS = RocketMQMetrics()
"""The metrics of this process."""
REGISTRY.register(METRICS)
