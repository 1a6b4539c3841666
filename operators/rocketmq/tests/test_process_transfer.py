"""A TopicTransfer between two clusters of real brokers, with producers and consumers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from steersman.testing import EmbeddedCluster

from rocketmq.remoting import BrokerAdmin, RemotingError
from tests import process_cluster
from tests.process_cluster import Operated, broker, on_broker, operated, sends, started, until
from tests.remoting_servers import server_files, unavailable
from tests.workload import TOPIC, Routes, Workload

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "available"),
]
KIND = "topictransfers.rocketmq.daocloud.io"
TRANSFER = {
    "apiVersion": "rocketmq.daocloud.io/v1",
    "kind": "TopicTransfer",
    "metadata": {"name": "move"},
    "spec": {"topic": TOPIC, "sourceCluster": "mq", "targetCluster": "blue", "deleteSource": True},
}
ALONE = {"clusterMode": "STATIC", "replicaPerGroup": 0}


@pytest.fixture
def clusters(tmp_path) -> Iterator[tuple[EmbeddedCluster, Operated, Routes]]:
    """The RocketMQ clusters mq, which has the topic, and blue, which register with the same name servers."""
    files = server_files()
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(process_cluster.process_cluster(tmp_path))
        except (OSError, files.ServerFilesError) as problem:
            pytest.skip(f"RocketMQ cannot run in Pods here: {problem}")
        found = stack.enter_context(operated(cluster, "transfer"))
        routes = started(cluster, found.ports, **ALONE)
        cluster.apply(broker(**ALONE, nameService="mq") | {"metadata": {"name": "blue"}})
        until(lambda: phase_of(cluster, "brokers", "blue") == "Running", "the cluster blue does not run")
        yield cluster, found, routes


def phase_of(cluster: EmbeddedCluster, kind: str = "topictransfers", name: str = "move") -> str:
    found = cluster.get(f"{kind}.rocketmq.daocloud.io", name) or {}
    return found.get("status", {}).get("phase", "")


def permissions(routes: Routes) -> dict[str, int]:
    """Return what producers and consumers may do with the topic, by group."""

    async def read() -> dict[str, int]:
        with contextlib.suppress(RemotingError):
            return {queues.broker: int(queues.permission) for queues in (await routes.route(TOPIC)).queues}
        return {}

    return asyncio.run(read())


@pytest.mark.soak
def test_a_topic_moves_while_producers_send_and_no_acknowledged_message_is_lost(clusters):
    cluster, operator, routes = clusters
    with Workload(routes, [("mq-0", 0)]) as old:
        sends(old)
        assert old.report().sound
        cluster.apply(TRANSFER)
        until(lambda: permissions(routes).get("blue-0") == 6, "the topic does not appear on the target")
        with Workload(routes, [("blue-0", 0)]) as new:
            until(lambda: permissions(routes).get("mq-0") == 4, "writing to the source does not stop")
            old.stop()
            operator.kill()
            sends(new)
            operator.start()
            until(lambda: phase_of(cluster) == "Drain", lambda: f"the phase is {phase_of(cluster)}")
            report = old.report()
            assert report.sound, report
            until(
                lambda: phase_of(cluster) == "Done", lambda: f"the transfer does not end: {cluster.get(KIND, 'move')}"
            )
            sends(new)
        report = new.report()
        assert report.sound, report
    until(lambda: set(permissions(routes)) == {"blue-0"}, lambda: f"the source is still there: {permissions(routes)}")

    async def names(admin: BrokerAdmin) -> tuple[set[str], set[str]]:
        return set(await admin.topic_configs()), set(await admin.subscription_groups())

    target = f"blue-0-0-0.blue-brokers.{cluster.namespace}.svc:10911"
    topics, groups = asyncio.run(on_broker(operator.ports, target, names))
    assert TOPIC in topics
    assert "readers" in groups
