"""The admin commands against a real name server and a real broker; each is verified by its effect."""

import socket
import ssl
import sys
import time

import pytest

from rocketmq.brokers.settings import is_applied
from rocketmq.remoting import (
    BrokerAdmin,
    Connection,
    MessageClient,
    NameServerAdmin,
    Permission,
    RefusedError,
    ResponseCode,
    SubscriptionGroup,
    TopicConfig,
)
from tests import remoting_servers

pytestmark = [pytest.mark.slow, remoting_servers.NEEDS_SERVERS]
GROUP = "group-a"
READ_WRITE = Permission.READ | Permission.WRITE


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    files = remoting_servers.server_files()
    try:
        jars = files.make(remoting_servers.VERSION)
    except files.ServerFilesError as error:
        pytest.skip(str(error))
    with remoting_servers.running(tmp_path_factory.mktemp("servers"), jars) as running:
        yield running


@pytest.fixture
async def name_server(servers):
    async with await Connection.open(servers.name_server) as connection:
        yield NameServerAdmin(connection)


@pytest.fixture
async def connection(servers):
    async with await Connection.open(servers.broker) as connection:
        yield connection


@pytest.fixture
def broker(connection):
    return BrokerAdmin(connection)


@pytest.fixture
def client(connection):
    return MessageClient(connection)


async def routed(name_server, topic, permission=READ_WRITE):
    """Wait until the route of a topic has a permission, and return the route."""

    async def probe():
        return all(queues.permission == permission for queues in (await name_server.topic_route(topic)).queues)

    await remoting_servers.until(probe, f"the route of {topic} has {permission!r}")
    return await name_server.topic_route(topic)


async def send(client, topic, queue, body, key=""):
    now = int(time.time() * 1000)
    return await client.send(topic, queue, body, broker=GROUP, group="producers", born_ms=now, key=key)


async def pulled(client, topic, queue, count):
    """Wait until a queue has this number of messages, and return them."""

    async def probe():
        return len((await client.pull(topic, queue, 0, broker=GROUP, group="readers")).messages) >= count

    await remoting_servers.until(probe, f"{count} messages in queue {queue} of {topic}")
    return await client.pull(topic, queue, 0, broker=GROUP, group="readers")


async def test_a_broker_that_registered_is_in_the_cluster_with_its_address(name_server, servers):
    info = await name_server.cluster_info()
    assert info.clusters == {"test": (GROUP,)}
    assert info.groups[GROUP].addresses == {0: servers.broker}


async def test_a_topic_that_is_created_has_a_route_with_its_queues(name_server, broker):
    topic = TopicConfig("routes", 3, 2, attributes={"message.type": "NORMAL"})
    await broker.put_topic(topic)
    (queues,) = (await routed(name_server, "routes")).queues
    assert (queues.broker, queues.read_queues, queues.write_queues) == (GROUP, 3, 2)
    assert "routes" in await name_server.topics()
    assert (await broker.topic_configs())["routes"] == topic


async def test_a_deleted_topic_has_neither_settings_nor_a_route(name_server, broker):
    await broker.put_topic(TopicConfig("deleted", 1, 1))
    await routed(name_server, "deleted")
    await broker.delete_topic("deleted")
    await name_server.delete_topic("deleted", "test")
    assert "deleted" not in await broker.topic_configs()
    assert "deleted" not in await name_server.topics()
    with pytest.raises(RefusedError) as refused:
        await name_server.topic_route("deleted")
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_message_that_was_sent_is_pulled_with_its_body_and_key(broker, client):
    await broker.put_topic(TopicConfig("messages", 2, 2))
    await broker.put_subscription_group(SubscriptionGroup("readers"))
    sent = await send(client, "messages", 1, b"\x00\xff body", key="key-1")
    got = await pulled(client, "messages", 1, 1)
    (message,) = got.messages
    assert (message.topic, message.queue, message.offset, message.body) == (
        "messages",
        1,
        sent.offset,
        b"\x00\xff body",
    )
    assert message.properties["KEYS"] == "key-1"
    assert got.next_offset == got.max_offset == sent.offset + 1
    after = await client.pull("messages", 1, got.next_offset, broker=GROUP, group="readers")
    assert after.messages == ()


async def test_the_lag_of_a_group_is_what_it_has_not_committed(broker, client):
    await broker.put_topic(TopicConfig("lagging", 1, 1))
    await broker.put_subscription_group(SubscriptionGroup("readers"))
    for number in range(5):
        await send(client, "lagging", 0, b"%d" % number)
    await pulled(client, "lagging", 0, 5)
    await client.commit("lagging", 0, 2, group="readers")
    stats = await broker.consumer_stats("readers", "lagging")
    assert [(queue.topic, queue.broker, queue.queue, queue.lag) for queue in stats.queues] == [("lagging", GROUP, 0, 3)]
    await client.commit("lagging", 0, 5, group="readers")
    assert (await broker.consumer_stats("readers", "lagging")).lag == 0


async def test_a_setting_that_is_changed_live_is_read_back(broker):
    assert (await broker.config())["fileReservedTime"] == "72"
    await broker.update_config({"fileReservedTime": "31", "msgTraceTopicName": "with space=and:signs"})
    config = await broker.config()
    assert config["fileReservedTime"] == "31"
    assert config["msgTraceTopicName"] == "with space=and:signs"


async def test_a_broker_ignores_a_value_of_another_type_and_reports_a_value_in_its_own_form(broker):
    await broker.update_config({"fileReservedTime": "36"})
    await broker.update_config(
        {"fileReservedTime": "a day", "autoCreateTopicEnable": "TRUE", "maxMessageSize": "065536"}
    )
    found = await broker.config()
    assert found["fileReservedTime"] == "36"
    assert is_applied("TRUE", found["autoCreateTopicEnable"])
    assert is_applied("065536", found["maxMessageSize"])


async def test_admin_commands_start_no_process(name_server, broker):
    started: list[str] = []

    def note(event: str, _: object) -> None:
        if watching and event in {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"}:
            started.append(event)

    watching = True
    sys.addaudithook(note)
    await name_server.cluster_info()
    await broker.update_config({"fileReservedTime": "48"})
    await broker.config()
    watching = False
    assert started == []


async def test_the_runtime_information_counts_the_messages_that_were_put(broker, client):
    await broker.put_topic(TopicConfig("counted", 1, 1))
    before = await broker.runtime_info()
    await send(client, "counted", 0, b"one")
    after = await broker.runtime_info()
    assert int(after["msgPutTotalTodayNow"]) == int(before["msgPutTotalTodayNow"]) + 1


async def test_wiped_write_permission_is_gone_from_the_route_until_it_is_added(name_server, broker):
    await broker.put_topic(TopicConfig("wiped", 1, 1))
    await routed(name_server, "wiped")
    assert await name_server.wipe_write_permission(GROUP) > 0
    assert (await name_server.topic_route("wiped")).writable_queues == {}
    assert await name_server.add_write_permission(GROUP) > 0
    assert (await name_server.topic_route("wiped")).writable_queues == {GROUP: 1}


async def test_a_topic_without_write_permission_has_no_queue_for_producers_and_is_still_read(
    name_server, broker, client
):
    await broker.put_topic(TopicConfig("protected", 1, 1))
    await broker.put_subscription_group(SubscriptionGroup("readers"))
    assert (await routed(name_server, "protected")).writable_queues == {GROUP: 1}
    await send(client, "protected", 0, b"before")
    await broker.put_topic(TopicConfig("protected", 1, 1, Permission.READ))
    assert (await routed(name_server, "protected", Permission.READ)).writable_queues == {}
    assert [message.body for message in (await pulled(client, "protected", 0, 1)).messages] == [b"before"]


async def test_a_pull_from_a_topic_without_read_permission_is_refused(broker, client):
    await broker.put_subscription_group(SubscriptionGroup("readers"))
    await broker.put_topic(TopicConfig("unreadable", 1, 1, Permission.WRITE))
    with pytest.raises(RefusedError, match="unreadable") as refused:
        await client.pull("unreadable", 0, 0, broker=GROUP, group="readers")
    assert refused.value.code == ResponseCode.NO_PERMISSION


async def test_a_broker_without_write_permission_has_read_only_routes_and_refuses_ordered_topics(
    name_server, broker, client
):
    await broker.put_topic(TopicConfig("ordered", 1, 1, ordered=True))
    await routed(name_server, "ordered")
    await broker.set_permission(Permission.READ)
    try:
        await routed(name_server, "ordered", Permission.READ)
        with pytest.raises(RefusedError) as refused:
            await send(client, "ordered", 0, b"refused")
        assert refused.value.code == ResponseCode.NO_PERMISSION
    finally:
        await broker.set_permission(READ_WRITE)
    await routed(name_server, "ordered")
    assert (await send(client, "ordered", 0, b"stored")).offset == 0


async def test_a_subscription_group_is_created_changed_and_deleted(broker):
    await broker.put_subscription_group(SubscriptionGroup("changing", max_retries=3))
    assert (await broker.subscription_groups())["changing"] == SubscriptionGroup("changing", max_retries=3)
    changed = SubscriptionGroup("changing", consume_enabled=False, consume_orderly=True, retry_queues=2)
    await broker.put_subscription_group(changed)
    assert (await broker.subscription_groups())["changing"] == changed
    await broker.delete_subscription_group("changing", clean_offsets=True)
    assert "changing" not in await broker.subscription_groups()


def test_a_server_without_a_certificate_accepts_no_tls(servers):
    host, port = servers.broker.split(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain),
    ):
        pass
