"""Administration commands: the registrations at name servers, and the topics, groups and settings of a broker."""

from collections.abc import Mapping

from rocketmq.remoting.codes import Permission, RequestCode, ResponseCode
from rocketmq.remoting.connection import REQUEST_TIMEOUT_SECONDS, Connection
from rocketmq.remoting.errors import RefusedError
from rocketmq.remoting.json_documents import read_document
from rocketmq.remoting.properties import read_properties, write_properties
from rocketmq.remoting.records import (
    ClusterInfo,
    ConsumerStats,
    SubscriptionGroup,
    TopicConfig,
    TopicRoute,
    integer,
    mapping,
    objects,
    read_cluster_info,
    read_consumer_stats,
    read_subscription_groups,
    read_topic_configs,
    read_topic_route,
    text,
    texts,
    write_subscription_group,
)

DEFAULT_TOPIC = "TBW102"


class NameServerAdmin:
    """Commands of a name server.

    Every command raises `RemotingError` when the server refuses it, does not answer in time, or closes the connection.

    Args:
        connection: an open connection to a name server.
        timeout_seconds: how long one command may take.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout = timeout_seconds

    async def cluster_info(self) -> ClusterInfo:
        """Return the broker groups that are registered."""
        return read_cluster_info(await self._body(RequestCode.GET_BROKER_CLUSTER_INFO))

    async def topics(self) -> tuple[str, ...]:
        """Return the names of all topics, in order."""
        body = await self._body(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return tuple(sorted(texts(read_document(body, "the topic list").get("topicList"), "topicList")))

    async def topic_route(self, topic: str) -> TopicRoute:
        """Return the location of the queues of a topic.

        Raises:
            RefusedError: with code TOPIC_NOT_EXIST when no broker has registered the topic.
        """
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        return read_topic_route(await self._body(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields))

    async def delete_topic(self, topic: str, cluster: str) -> None:
        """Delete the route of a topic; delete the topic on the brokers first, or they register it again."""
        await self._body(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic, "clusterName": cluster})

    async def wipe_write_permission(self, broker: str) -> int:
        """Remove the write permission from all topics of a broker group, and return their number.

        Producers read the routes and use other brokers; the broker itself still accepts messages. The change affects
        this name server alone.
        """
        return await self._count(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker, "wipeTopicCount")

    async def add_write_permission(self, broker: str) -> int:
        """Restore the write permission of all topics of a broker group, and return their number."""
        return await self._count(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker, "addTopicCount")

    async def _count(self, code: RequestCode, broker: str, name: str) -> int:
        fields = {"brokerName": broker}
        response = await self._connection.request(code, fields, timeout_seconds=self._timeout)
        return integer(response.fields, name)

    async def _body(self, code: RequestCode, fields: Mapping[str, str] | None = None) -> bytes:
        return (await self._connection.request(code, fields, timeout_seconds=self._timeout)).body


class BrokerAdmin:
    """Commands of one broker; each member of a group reports only its own state.

    Every command raises `RemotingError` when the server refuses it, does not answer in time, or closes the connection.

    Args:
        connection: an open connection to a broker.
        timeout_seconds: how long one command may take.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout = timeout_seconds

    async def runtime_info(self) -> dict[str, str]:
        """Return the statistics of the broker by name, such as `bootTimestamp` and `putTps`."""
        document = read_document(await self._body(RequestCode.GET_BROKER_RUNTIME_INFO), "the runtime information")
        table = mapping(document.get("table"), "table")
        return {name: text(table, name) for name in table}

    async def config(self) -> dict[str, str]:
        """Return all settings of the broker by name."""
        return read_properties(await self._body(RequestCode.GET_BROKER_CONFIG))

    async def update_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of the running broker, which writes them to its configuration file.

        The broker ignores unknown names, and applies some settings only when it starts. Read the settings back to
        check.
        """
        await self._body(RequestCode.UPDATE_BROKER_CONFIG, body=write_properties(settings))

    async def set_permission(self, permission: Permission) -> None:
        """Set the permissions of clients on this broker, which registers them with all of its name servers.

        Without WRITE the routes of its topics are read-only, and producers use other brokers once they have read the
        routes again. The broker itself refuses only messages of ordered topics. Before the broker is removed, check
        that its number of messages does not change.
        """
        await self.update_config({"brokerPermission": str(int(permission))})

    async def put_topic(self, topic: TopicConfig) -> None:
        """Create a topic on this broker, or change its settings."""
        fields = {
            "topic": topic.name,
            "defaultTopic": DEFAULT_TOPIC,
            "readQueueNums": str(topic.read_queues),
            "writeQueueNums": str(topic.write_queues),
            "perm": str(int(topic.permission)),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "true" if topic.ordered else "false",
            "attributes": ",".join(f"+{name}={value}" for name, value in topic.attributes.items()),
        }
        await self._body(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and its messages on this broker; no error if the topic does not exist."""
        try:
            await self._body(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        except RefusedError as error:
            # A broker of 5.5.0 with `timerWheelEnable=false` deletes the topic and then reports an internal error.
            if error.code != ResponseCode.SYSTEM_ERROR or topic in await self.topic_configs():
                raise

    async def topic_configs(self) -> dict[str, TopicConfig]:
        """Return the settings of all topics of this broker, by name."""
        return read_topic_configs(await self._body(RequestCode.GET_ALL_TOPIC_CONFIG))

    async def topic_end(self, topic: str) -> int:
        """Return the sum of the end offsets of all queues of a topic on this broker, which grows with every message."""
        document = read_document(await self._body(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}), "the topic")
        return sum(integer(offsets, "maxOffset") for offsets in objects(document, "offsetTable").values())

    async def subscription_groups(self) -> dict[str, SubscriptionGroup]:
        """Return the consumer groups that are configured, by name."""
        return read_subscription_groups(await self._body(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))

    async def put_subscription_group(self, group: SubscriptionGroup) -> None:
        """Create a consumer group on this broker, or change its settings."""
        body = write_subscription_group(group)
        await self._body(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def delete_subscription_group(self, name: str, *, clean_offsets: bool = False) -> None:
        """Delete a consumer group on this broker, and its offsets when `clean_offsets` is set."""
        fields = {"groupName": name, "cleanOffset": "true" if clean_offsets else "false"}
        await self._body(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    async def consumer_stats(self, group: str, topic: str = "") -> ConsumerStats:
        """Return the progress of a consumer group in the queues of this broker.

        Args:
            group: the consumer group.
            topic: the only topic to report; empty for all topics that the group has offsets for.
        """
        fields = {"consumerGroup": group, "topic": topic}
        return read_consumer_stats(await self._body(RequestCode.GET_CONSUME_STATS, fields))

    async def _body(self, code: RequestCode, fields: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
        return (await self._connection.request(code, fields, body, timeout_seconds=self._timeout)).body
