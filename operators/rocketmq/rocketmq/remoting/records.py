"""The responses of name servers and brokers as frozen values, and their parsers from JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from rocketmq.remoting.codes import Permission
from rocketmq.remoting.errors import DocumentError
from rocketmq.remoting.json_documents import read_document


@dataclass(frozen=True)
class BrokerGroup:
    """The registered members of a broker group at a name server; member 0 is the master."""

    name: str
    cluster: str
    addresses: Mapping[int, str]


@dataclass(frozen=True)
class ClusterInfo:
    """The broker groups of each cluster."""

    groups: Mapping[str, BrokerGroup]
    clusters: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class TopicQueues:
    """The queues of a topic on one broker group."""

    broker: str
    read_queues: int
    write_queues: int
    permission: Permission


@dataclass(frozen=True)
class TopicRoute:
    """The location of the queues of a topic."""

    queues: tuple[TopicQueues, ...]
    groups: tuple[BrokerGroup, ...]

    @property
    def writable_queues(self) -> dict[str, int]:
        """The number of queues that producers may write to, by broker group."""
        return {item.broker: item.write_queues for item in self.queues if Permission.WRITE in item.permission}


@dataclass(frozen=True)
class TopicConfig:
    """The settings of a topic on one broker."""

    name: str
    read_queues: int = 8
    write_queues: int = 8
    permission: Permission = Permission.READ | Permission.WRITE
    ordered: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class SubscriptionGroup:
    """The settings of a consumer group on one broker."""

    name: str
    consume_enabled: bool = True
    consume_from_min: bool = True
    broadcast_enabled: bool = True
    consume_orderly: bool = False
    consume_timeout_minutes: int = 15
    retry_queues: int = 1
    max_retries: int = 16


@dataclass(frozen=True)
class QueueOffset:
    """The progress of a consumer group in one queue."""

    topic: str
    broker: str
    queue: int
    broker_offset: int
    consumer_offset: int

    @property
    def lag(self) -> int:
        """The number of messages of the queue that the group has not consumed."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True)
class ConsumerStats:
    """The progress of a consumer group in the queues of one broker."""

    queues: tuple[QueueOffset, ...]

    @property
    def lag(self) -> int:
        """The number of messages of all queues that the group has not consumed."""
        return sum(queue.lag for queue in self.queues)


def read_cluster_info(body: bytes) -> ClusterInfo:
    """Return the content of the response to GET_BROKER_CLUSTER_INFO."""
    document = read_document(body, "the cluster information")
    groups = [_broker_group(item) for item in objects(document, "brokerAddrTable").values()]
    clusters = mapping(document.get("clusterAddrTable"), "clusterAddrTable")
    names = {cluster: texts(brokers, "clusterAddrTable") for cluster, brokers in clusters.items()}
    return ClusterInfo({group.name: group for group in groups}, names)


def read_topic_route(body: bytes) -> TopicRoute:
    """Return the content of the response to GET_ROUTEINFO_BY_TOPIC."""
    document = read_document(body, "the topic route")
    queues = tuple(
        TopicQueues(
            broker=text(item, "brokerName"),
            read_queues=integer(item, "readQueueNums"),
            write_queues=integer(item, "writeQueueNums"),
            permission=permission(item, "perm"),
        )
        for item in object_list(document, "queueDatas")
    )
    return TopicRoute(queues, tuple(_broker_group(item) for item in object_list(document, "brokerDatas")))


def read_consumer_stats(body: bytes) -> ConsumerStats:
    """Return the content of the response to GET_CONSUME_STATS, whose keys are queues as JSON text."""
    queues: list[QueueOffset] = []
    for key, offsets in objects(read_document(body, "the consumer statistics"), "offsetTable").items():
        queue = read_document(key.encode(), "a queue in the consumer statistics")
        queues.append(
            QueueOffset(
                topic=text(queue, "topic"),
                broker=text(queue, "brokerName"),
                queue=integer(queue, "queueId"),
                broker_offset=integer(offsets, "brokerOffset"),
                consumer_offset=integer(offsets, "consumerOffset"),
            )
        )
    return ConsumerStats(tuple(sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue))))


def read_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Return the content of the response to GET_ALL_TOPIC_CONFIG."""
    configs: dict[str, TopicConfig] = {}
    for name, item in objects(read_document(body, "the topic settings"), "topicConfigTable").items():
        attributes = mapping(item.get("attributes"), "attributes")
        configs[name] = TopicConfig(
            name=name,
            read_queues=integer(item, "readQueueNums"),
            write_queues=integer(item, "writeQueueNums"),
            permission=permission(item, "perm"),
            ordered=boolean(item, "order"),
            attributes={attribute: text(attributes, attribute) for attribute in attributes},
        )
    return configs


def read_subscription_groups(body: bytes) -> dict[str, SubscriptionGroup]:
    """Return the content of the response to GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
    table = objects(read_document(body, "the subscription groups"), "subscriptionGroupTable")
    return {
        name: SubscriptionGroup(
            name=name,
            consume_enabled=boolean(item, "consumeEnable"),
            consume_from_min=boolean(item, "consumeFromMinEnable"),
            broadcast_enabled=boolean(item, "consumeBroadcastEnable"),
            consume_orderly=boolean(item, "consumeMessageOrderly"),
            consume_timeout_minutes=integer(item, "consumeTimeoutMinute"),
            retry_queues=integer(item, "retryQueueNums"),
            max_retries=integer(item, "retryMaxTimes"),
        )
        for name, item in table.items()
    }


def write_subscription_group(group: SubscriptionGroup) -> bytes:
    """Return the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
    values = {
        "groupName": group.name,
        "consumeEnable": group.consume_enabled,
        "consumeFromMinEnable": group.consume_from_min,
        "consumeBroadcastEnable": group.broadcast_enabled,
        "consumeMessageOrderly": group.consume_orderly,
        "consumeTimeoutMinute": group.consume_timeout_minutes,
        "retryQueueNums": group.retry_queues,
        "retryMaxTimes": group.max_retries,
    }
    return json.dumps(values).encode()


def mapping(value: object, what: str) -> dict[str, object]:
    """Return the value as an object; `null` becomes an empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError(f"{what} is not an object")
    return cast("dict[str, object]", value)


def objects(document: Mapping[str, object], name: str) -> dict[str, dict[str, object]]:
    """Return a field with objects by name."""
    return {key: mapping(item, name) for key, item in mapping(document.get(name), name).items()}


def texts(value: object, what: str) -> tuple[str, ...]:
    """Return the value as a tuple of strings; `null` becomes an empty tuple."""
    if not isinstance(value, list | None):
        raise DocumentError(f"{what} is not a list")
    items = cast("list[object]", value or [])
    if not all(isinstance(item, str) for item in items):
        raise DocumentError(f"{what} is not a list of texts")
    return tuple(str(item) for item in items)


def text(document: Mapping[str, object], name: str) -> str:
    """Return a field that is a string."""
    value = document.get(name)
    if not isinstance(value, str):
        raise DocumentError(f"{name} is not a text")
    return value


def boolean(document: Mapping[str, object], name: str) -> bool:
    """Return a field that is a boolean."""
    value = document.get(name)
    if not isinstance(value, bool):
        raise DocumentError(f"{name} is not true or false")
    return value


def integer(document: Mapping[str, object], name: str) -> int:
    """Return a field that is an integer, or its decimal text, as in header fields."""
    value = document.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _decimal(value, name)
    raise DocumentError(f"{name} is not an integer")


def permission(document: Mapping[str, object], name: str) -> Permission:
    """Return a field with permissions, without the bits that do not concern clients."""
    return Permission(integer(document, name) & (Permission.READ | Permission.WRITE))


def object_list(document: Mapping[str, object], name: str) -> list[dict[str, object]]:
    """Return a field that is a list of objects; empty if it is missing."""
    value = document.get(name)
    if not isinstance(value, list | None):
        raise DocumentError(f"{name} is not a list")
    return [mapping(item, name) for item in cast("list[object]", value or [])]


def _broker_group(item: Mapping[str, object]) -> BrokerGroup:
    members = mapping(item.get("brokerAddrs"), "brokerAddrs")
    addresses = {_decimal(member, "a member in brokerAddrs"): text(members, member) for member in members}
    return BrokerGroup(text(item, "brokerName"), text(item, "cluster"), dict(sorted(addresses.items())))


def _decimal(value: str, what: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise DocumentError(f"{what} is not an integer")
    return int(value)
