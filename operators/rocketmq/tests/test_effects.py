"""Effects of a plan on brokers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import structlog

from rocketmq.brokers.effects import Effects
from rocketmq.brokers.names import Member
from rocketmq.brokers.plan import Configure, CopyTo
from rocketmq.remoting import RemotingError, SubscriptionGroup, TopicConfig
from tests.test_broker_plan import ENDPOINTS, broker


class OneBroker:
    """A broker that ignores values that are not numbers, as RocketMQ does."""

    def __init__(self) -> None:
        self.settings = {"fileReservedTime": "72", "maxMessageSize": "4194304"}

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[Any]:
        yield self

    async def update_config(self, settings: Mapping[str, str]) -> None:
        self.settings |= {name: str(int(value)) for name, value in settings.items() if value.isdecimal()}

    async def config(self) -> dict[str, str]:
        return dict(self.settings)


async def configured(servers: OneBroker, settings: Mapping[str, str]) -> tuple[str, ...]:
    ctx: Any = SimpleNamespace(log=structlog.get_logger())
    source: Any = servers
    return await Effects(broker(groups=[0]), ctx, source, ENDPOINTS).perform((Configure(Member(0, 1), settings),))


async def test_a_setting_that_a_broker_accepts_has_no_problem():
    servers = OneBroker()
    assert await configured(servers, {"fileReservedTime": "024"}) == ()
    assert servers.settings["fileReservedTime"] == "24"


async def test_a_setting_that_a_broker_ignores_is_reported_with_its_value():
    (problem,) = await configured(OneBroker(), {"fileReservedTime": "a day", "maxMessageSize": "65536"})
    assert "mq-0-1-0 does not accept fileReservedTime=a day (it has 72)" in problem
    assert "spec.config" in problem
    assert "maxMessageSize" not in problem


class Tables:
    """The topics and subscription groups of one broker."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicConfig] = {}
        self.groups: dict[str, SubscriptionGroup] = {}

    async def config(self) -> dict[str, str]:
        return {"brokerName": "mq-0", "brokerClusterName": "mq"}

    async def topic_configs(self) -> dict[str, TopicConfig]:
        return dict(self.topics)

    async def put_topic(self, topic: TopicConfig) -> None:
        self.topics[topic.name] = topic

    async def subscription_groups(self) -> dict[str, SubscriptionGroup]:
        return dict(self.groups)

    async def put_subscription_group(self, group: SubscriptionGroup) -> None:
        self.groups[group.name] = group


class Brokers:
    """The brokers of two groups with three members each. Replicas read the tables of their master on demand."""

    def __init__(self) -> None:
        self.tables = {Member(group, index): Tables() for group in range(2) for index in range(3)}
        self.down: set[Member] = set()

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[Any]:
        _, group, index, _ = address.partition(".")[0].split("-")
        member = Member(int(group), int(index))
        if member in self.down:
            raise RemotingError(f"{address} does not accept connections")
        yield self.tables[member]

    def replicate(self, master: Member, *replicas: Member) -> None:
        for each in replicas:
            self.tables[each].topics = dict(self.tables[master].topics)
            self.tables[each].groups = dict(self.tables[master].groups)


OLD, NEW, FIRST, SECOND = Member(0, 0), Member(1, 0), Member(1, 1), Member(1, 2)


class Joining:
    """Effects that copy the topics to the second group, with the Events that they record."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.brokers.tables[OLD].topics["orders"] = TopicConfig("orders", 2, 2)
        self.brokers.tables[OLD].groups["readers"] = SubscriptionGroup("readers")
        self.events: list[str] = []

    async def copy(self, master: Member = NEW) -> tuple[Effects, tuple[str, ...]]:
        """Perform the step as one reconcile does, and return the effects and their problems."""
        log, source = structlog.get_logger(), self.brokers
        ctx: Any = SimpleNamespace(log=log, event=lambda reason, _: self.events.append(reason))
        servers: Any = source
        effects = Effects(broker(groups=[0], size=2), ctx, servers, ENDPOINTS)
        return effects, await effects.perform((CopyTo(OLD, master, 1),))


async def test_a_group_joins_when_its_replicas_have_the_topics_of_their_master():
    joining = Joining()
    effects, problems = await joining.copy()
    assert joining.brokers.tables[NEW].topics == joining.brokers.tables[OLD].topics
    assert (effects.joined, problems, joining.events) == (set(), (), [])
    assert effects.waiting == "group 1 joins when mq-1-1-0 has copied the topics of its master"
    joining.brokers.replicate(NEW, FIRST)
    effects, _ = await joining.copy()
    assert (effects.joined, "mq-1-2-0" in effects.waiting) == (set(), True)
    joining.brokers.replicate(NEW, SECOND)
    effects, _ = await joining.copy()
    assert (effects.joined, effects.waiting, joining.events) == ({1}, "", ["GroupJoined"])


async def test_a_replica_that_becomes_the_master_before_it_has_the_topics_gets_them():
    joining = Joining()
    await joining.copy()
    effects, _ = await joining.copy(master=FIRST)
    assert joining.brokers.tables[FIRST].topics.keys() == {"orders"}
    assert effects.joined == set()
    joining.brokers.replicate(FIRST, NEW, SECOND)
    effects, _ = await joining.copy(master=FIRST)
    assert effects.joined == {1}


async def test_a_group_does_not_join_while_one_of_its_replicas_does_not_answer():
    joining = Joining()
    joining.brokers.down = {SECOND}
    await joining.copy()
    joining.brokers.replicate(NEW, FIRST)
    effects, (problem,) = await joining.copy()
    assert "mq-1-2-0" in problem
    assert (effects.joined, joining.events) == (set(), [])
