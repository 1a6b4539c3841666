"""Reads the lag of consumer groups and the ends of topics of a Broker, for its metrics."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq.access import Servers
from rocketmq.remoting import BrokerAdmin
from rocketmq.topics import SYSTEM_GROUPS, is_system_topic

__all__ = ["read_load"]

MAX_SERIES = 2000
"""Most consumer groups, and most topics, that are read from a broker."""

Load = tuple[dict[tuple[str, str], int], dict[str, int]]


async def read_load(servers: Servers, masters: Sequence[str]) -> Load:
    """Return the lag by consumer group and topic, and the ends of topics, over all masters.

    Raises:
        RemotingError: a master does not answer.
    """
    lag: dict[tuple[str, str], int] = {}
    ends: dict[str, int] = {}
    for address in masters:
        async with servers.broker(address) as broker:
            await _add_topics(broker, ends)
            await _add_lag(broker, lag)
    return lag, ends


async def _add_topics(broker: BrokerAdmin, ends: dict[str, int]) -> None:
    config = await broker.config()
    own = frozenset({config.get("brokerName", ""), config.get("brokerClusterName", "")})
    topics = sorted(name for name in await broker.topic_configs() if not is_system_topic(name, own))
    for topic in topics[:MAX_SERIES]:
        if not topic.startswith(("%RETRY%", "%DLQ%")):
            ends[topic] = ends.get(topic, 0) + await broker.topic_end(topic)


async def _add_lag(broker: BrokerAdmin, lag: dict[tuple[str, str], int]) -> None:
    groups = sorted(name for name in await broker.subscription_groups() if not name.startswith(SYSTEM_GROUPS))
    for group in groups[:MAX_SERIES]:
        for queue in (await broker.consumer_stats(group)).queues:
            lag[group, queue.topic] = lag.get((group, queue.topic), 0) + queue.lag
