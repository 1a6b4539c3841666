"""Real RocketMQ servers as Pods of process nodes, reached from the tests through forwarded ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from steersman.testing import Cluster, EmbeddedCluster, Operators
from steersman.testing.node_faults import forwarded

from rocketmq.access import RemotingServers, use_servers
from rocketmq.remoting import BrokerAdmin, Connection, RemotingError, SubscriptionGroup, TopicConfig

from .remoting_servers import server_files
from .workload import TOPIC, Routes, Workload

PROJECT = Path(__file__).parents[1]
IMAGE = "rocketmq:5.5.0"
WAIT_SECONDS = 300.0
ROUTE_SECONDS = 20.0
"""Time after which a topic without a route is created again; brokers register at least every 10 seconds."""
SMALL_BROKER = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "timerWheelEnable": "false",
    # On a busy machine, requests wait for longer than the default of 200 ms.
    "waitTimeMillsInSendQueue": "10000",
    "waitTimeMillsInPullQueue": "10000",
}
"""Settings with which brokers need little memory."""


class Ports:
    """Forwards a port of this machine to each requested server, by the name or the address of its Pod."""

    def __init__(self, cluster: EmbeddedCluster, stack: contextlib.ExitStack) -> None:
        self._cluster = cluster
        self._stack = stack
        self._ports: dict[str, int] = {}

    def __call__(self, address: str) -> str:
        host, _, port = address.rpartition(":")
        place = f"{self._pod(host)}:{port}"
        if place not in self._ports:
            forwarding = forwarded(self._cluster, self._pod(host), int(port))
            self._ports[place] = self._stack.enter_context(forwarding)[1]
        return f"127.0.0.1:{self._ports[place]}"

    def _pod(self, host: str) -> str:
        if not host.replace(".", "").isdigit():
            return host.split(".")[0]
        for pod in self._cluster.list("pods"):
            if pod.get("status", {}).get("podIP") == host and pod["status"].get("phase") == "Running":
                return pod["metadata"]["name"]
        raise RemotingError(f"no Pod has the address {host}")


@contextlib.contextmanager
def process_cluster(
    directory: Path, nodes: int = 2, versions: tuple[str, ...] = ("5.5.0",)
) -> Iterator[EmbeddedCluster]:
    """Start a cluster with an image `rocketmq` of the servers' files, with one tag for each version.

    Raises:
        OSError: Pods cannot have networks of their own here.
    """
    files = server_files()
    images = directory / "images.yaml"
    images.write_text(json.dumps({"images": {f"rocketmq:{each}": files.image(each) for each in versions}}))
    with EmbeddedCluster.start(nodes=nodes, node_kind="process", images=images, network="namespaces") as cluster:
        yield cluster


class Operated:
    """The operator of a namespace, and ports of this machine that forward to its servers."""

    def __init__(self, operators: Operators, namespace: str, ports: Ports) -> None:
        self._operators = operators
        self._namespace = namespace
        self.ports = ports
        self.start()

    def start(self) -> None:
        """Start the operator; when it stops, it does not wait for reconciles."""
        settings = {"shutdown_grace": 0.0}
        self._running = self._operators("rocketmq:operator", namespaces=(self._namespace,), settings=settings)

    def kill(self) -> None:
        """Cancel the operator at any point of its reconciles; servers still handle received requests."""
        self._running.stop()


@contextlib.contextmanager
def operated(cluster: EmbeddedCluster, namespace: str) -> Iterator[Operated]:
    """Run the operator in a separate namespace until the block ends."""
    cluster.create_namespace(namespace)
    with cluster.test(namespace), contextlib.ExitStack() as stack:
        cluster.apply(PROJECT / "config" / "crd" / "bases")
        ports = Ports(cluster, stack)
        use_servers(RemotingServers(ports))
        operators = Operators(cluster)
        try:
            yield Operated(operators, namespace, ports)
        finally:
            operators.close()
            use_servers(RemotingServers())
    cluster.delete_namespace(namespace)


def until(holds: Callable[[], Any], what: str | Callable[[], object], seconds: float = WAIT_SECONDS) -> Any:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
    return found


def name_service(size: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "rocketmq.daocloud.io/v1",
        "kind": "NameService",
        "metadata": {"name": "mq"},
        "spec": {"size": size, "nameServiceImage": IMAGE},
    }


def broker(**spec: Any) -> dict[str, Any]:
    config = {**SMALL_BROKER, **spec.pop("config", {})}
    # If a member loses its data, the group could elect a master that lacks messages.
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    base = {
        "brokerImage": IMAGE,
        "volumeClaimTemplates": [{"metadata": {"name": "store"}, "spec": claim}],
        "storageReclaimPolicy": "Delete",
        "config": config,
    }
    return {
        "apiVersion": "rocketmq.daocloud.io/v1",
        "kind": "Broker",
        "metadata": {"name": "mq"},
        "spec": base | spec,
    }


def status(cluster: Cluster, kind: str = "brokers") -> dict[str, Any]:
    return (cluster.get(f"{kind}.rocketmq.daocloud.io", "mq") or {}).get("status") or {}


def running(cluster: Cluster) -> dict[str, Any]:
    """Return the status of a Broker; an empty one unless it is current and all members are in sync."""
    found = cluster.get("brokers.rocketmq.daocloud.io", "mq") or {}
    state = found.get("status") or {}
    current = state.get("observedGeneration") == found.get("metadata", {}).get("generation")
    return state if current and state.get("phase") == "Running" else {}


CONTROLLER: dict[str, Any] = {
    "apiVersion": "rocketmq.daocloud.io/v1",
    "kind": "Controller",
    "metadata": {"name": "mq"},
    "spec": {"size": 1, "controllerImage": IMAGE, "storageMode": "EmptyDir"},
}
MODES: dict[str, dict[str, Any]] = {
    "DLEDGER": {"clusterMode": "DLEDGER", "replicaPerGroup": 2},
    "CONTROLLER": {"clusterMode": "CONTROLLER", "replicaPerGroup": 1, "minInSyncReplicas": 1},
}
"""The modes that elect masters, with the smallest groups that survive the loss of one."""


def address_of(cluster: Cluster, pod: str, port: int = 10911) -> str:
    return f"{pod}.mq-brokers.{cluster.namespace}.svc:{port}"


def group_of(cluster: Cluster, index: int = 0) -> dict[str, Any]:
    return status(cluster)["groups"][index]


async def on_broker(ports: Callable[[str], str], address: str, act: Callable[[BrokerAdmin], Awaitable[Any]]) -> Any:
    async with await Connection.open(ports(address)) as connection:
        return await act(BrokerAdmin(connection))


def started(
    cluster: Cluster, ports: Callable[[str], str], *, servers: dict[str, Any] | None = None, **spec: Any
) -> Routes:
    """Start name servers and a Broker, and create the topic of the workload on all its masters."""
    if spec.get("clusterMode") == "CONTROLLER":
        cluster.apply(CONTROLLER)
    cluster.apply(servers or name_service())
    cluster.apply(broker(**spec))
    found = until(lambda: running(cluster), lambda: f"the Broker does not run: {status(cluster)}")
    create_topic(cluster, ports, found)
    routes = Routes(ports, lambda: tuple(status(cluster).get("nameServers", ())))
    wait_routed(routes, len(found["groups"]))
    return routes


def is_routed(routes: Routes, groups: int, topic: str = TOPIC) -> bool:
    """Return whether name servers have the topic's queues of this number of groups."""

    async def routed() -> bool:
        with contextlib.suppress(RemotingError):
            return len((await routes.route(topic)).queues) == groups
        return False

    return asyncio.run(routed())


def wait_routed(routes: Routes, groups: int, topic: str = TOPIC) -> None:
    """Wait until name servers have the topic's queues of this number of groups."""
    until(lambda: is_routed(routes, groups, topic), f"the topic {topic} has no route")


def create_routed_topic(cluster: Cluster, ports: Callable[[str], str], routes: Routes, topic: str) -> None:
    """Create a topic and wait for its route.

    Replicas copy the settings of topics every 10 seconds. So a new topic is lost if another member becomes the master
    before, or if the status of the Broker does not have the newest master yet. Then it is created again.
    """

    def created() -> bool:
        found = status(cluster)
        with contextlib.suppress(RemotingError):
            create_topic(cluster, ports, found, topic)
        deadline = time.monotonic() + ROUTE_SECONDS
        while time.monotonic() < deadline:
            if is_routed(routes, len(found["groups"]), topic):
                return True
            time.sleep(0.5)
        return False

    until(created, lambda: f"the topic {topic} has no route: {status(cluster)}")


def create_topic(cluster: Cluster, ports: Callable[[str], str], found: dict[str, Any], topic: str = TOPIC) -> None:
    async def create(admin: BrokerAdmin) -> None:
        await admin.put_topic(TopicConfig(topic, 2, 2))
        await admin.put_subscription_group(SubscriptionGroup("readers"))

    for each in found["groups"]:
        asyncio.run(on_broker(ports, address_of(cluster, each["master"]), create))


def sends(workload: Workload, count: int = 100) -> None:
    """Wait until more messages were acknowledged."""
    before = workload.count
    until(lambda: workload.count >= before + count, "no messages are acknowledged")
