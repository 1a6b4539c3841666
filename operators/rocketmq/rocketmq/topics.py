"""Copies topics and subscription groups between brokers."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq.remoting import BrokerAdmin, SubscriptionGroup, TopicConfig

__all__ = ["SYSTEM_GROUPS", "Copied", "copy_groups", "copy_topics", "is_system_topic", "read_copies"]

SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "BenchmarkTest",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
    }
)
SYSTEM_GROUPS = ("CID_RMQ_SYS_", "CID_ONSAPI_", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_", "CID_ONS-HTTP")


def is_system_topic(name: str, brokers: frozenset[str] = frozenset()) -> bool:
    """Return whether brokers create a topic themselves.

    Args:
        name: the name of the topic.
        brokers: the names of the broker group and of its cluster, which also have topics.
    """
    own = name.removesuffix("_REPLY_TOPIC")
    return name in SYSTEM_TOPICS or name.startswith(("rmq_sys_", "RMQ_SYS_")) or own in brokers


@dataclass(frozen=True)
class Copied:
    """The names of the topics and subscription groups that two brokers have in common after a copy."""

    topics: frozenset[str]
    groups: frozenset[str]


async def copy_topics(source: BrokerAdmin, target: BrokerAdmin) -> Copied:
    """Copy the topics and subscription groups of one broker to another, and return their names.

    Subscription groups are copied first, because clients use a topic when it exists and has a route. Existing topics
    and groups with the same settings are not written, so that an interrupted copy can be repeated.
    """
    groups = await copy_groups(source, target)
    config = await source.config()
    own = frozenset({config.get("brokerName", ""), config.get("brokerClusterName", "")})
    existing_topics = await target.topic_configs()
    topics = {name: topic for name, topic in (await source.topic_configs()).items() if not is_system_topic(name, own)}
    for name, topic in topics.items():
        if existing_topics.get(name) != topic:
            await target.put_topic(topic)
    return Copied(frozenset(topics), groups)


async def read_copies(
    broker: BrokerAdmin, copied: Copied
) -> tuple[dict[str, TopicConfig | None], dict[str, SubscriptionGroup | None]]:
    """Return those of a broker's topics and subscription groups that were copied, by name; `None` for a missing one.

    Replicas read them from their master every 10 seconds. A replica that becomes the master before lacks them.
    """
    topics, groups = await broker.topic_configs(), await broker.subscription_groups()
    return {name: topics.get(name) for name in copied.topics}, {name: groups.get(name) for name in copied.groups}


async def copy_groups(source: BrokerAdmin, target: BrokerAdmin) -> frozenset[str]:
    """Copy the subscription groups of one broker to another, and return their names."""
    existing = await target.subscription_groups()
    groups = {
        name: group
        for name, group in (await source.subscription_groups()).items()
        if not name.startswith(SYSTEM_GROUPS)
    }
    for name, group in groups.items():
        if existing.get(name) != group:
            await target.put_subscription_group(group)
    return frozenset(groups)
