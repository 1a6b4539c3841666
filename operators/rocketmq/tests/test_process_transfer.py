"""A TopicTransfer between two clusters of real brokers, with producers and consumers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import datetime

import pytest
from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import ActiveFault, NodeFaults

from rocketmq.api.v1.topictransfer_types import Phase
from rocketmq.controllers import topictransfer_controller
from rocketmq.remoting import BrokerAdmin, RemotingError
from rocketmq.transfer_work import TransferWork
from rocketmq.transfers import Outcome
from tests import process_cluster
from tests.process_cluster import Operated, broker, on_broker, operated, sends, started, until
from tests.remoting_servers import NEEDS_SERVERS, server_files
from tests.workload import TOPIC, Routes, Workload

pytestmark = [pytest.mark.slow, NEEDS_SERVERS]
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
    """The RocketMQ clusters `mq` with the topic, and `blue` with two groups; both use the same name servers."""
    files = server_files()
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(process_cluster.process_cluster(tmp_path))
        except (OSError, files.ServerFilesError) as problem:
            pytest.skip(f"RocketMQ cannot run in Pods here: {problem}")
        found = stack.enter_context(operated(cluster, "transfer"))
        routes = started(cluster, found.ports, **ALONE)
        cluster.apply(broker(**ALONE, nameService="mq", size=2) | {"metadata": {"name": "blue"}})
        until(lambda: phase_of(cluster, "brokers", "blue") == "Running", "the cluster blue does not run")
        yield cluster, found, routes


def phase_of(cluster: EmbeddedCluster, kind: str = "topictransfers", name: str = "move") -> str:
    found = cluster.get(f"{kind}.rocketmq.daocloud.io", name) or {}
    return found.get("status", {}).get("phase", "")


def permissions(routes: Routes) -> dict[str, int]:
    """Return the permissions on the topic, by group."""

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
    until(
        lambda: set(permissions(routes)) == {"blue-0", "blue-1"},
        lambda: f"the source is still there: {permissions(routes)}",
    )

    async def names(admin: BrokerAdmin) -> tuple[set[str], set[str]]:
        return set(await admin.topic_configs()), set(await admin.subscription_groups())

    target = f"blue-0-0-0.blue-brokers.{cluster.namespace}.svc:10911"
    topics, groups = asyncio.run(on_broker(operator.ports, target, names))
    assert TOPIC in topics
    assert "readers" in groups


@pytest.mark.soak
def test_an_undone_transfer_deletes_the_topic_that_it_has_created_on_a_part_of_the_target(clusters, monkeypatch):
    cluster, _operator, routes = clusters
    stopped: list[ActiveFault] = []

    class StoppedTarget(TransferWork):
        async def perform(self, phase: Phase, now: datetime) -> Outcome:
            if phase == "CreateTopic" and not stopped:
                stopped.append(await asyncio.to_thread(NodeFaults(cluster).pause, "blue-1-0-0"))
            return await super().perform(phase, now)

    monkeypatch.setattr(topictransfer_controller, "TransferWork", StoppedTarget)
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload, 20)
        cluster.apply(TRANSFER)
        until(lambda: "blue-0" in permissions(routes), "the topic does not appear on the first group of the target")
        assert phase_of(cluster) == "CreateTopic"
        cluster.patch(KIND, "move", {"spec": {"undo": True}})
        until(lambda: phase_of(cluster) == "Undo", lambda: f"the transfer is not undone: {cluster.get(KIND, 'move')}")
        stopped[0].end()
        until(lambda: phase_of(cluster) == "Done", lambda: f"the undo does not end: {cluster.get(KIND, 'move')}")
        assert permissions(routes) == {"mq-0": 6}
        sends(workload, 20)
    assert workload.attempts_failed == 0
    assert workload.report().sound
