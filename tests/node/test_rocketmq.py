"""RocketMQ's operator and servers in their own images on a real node."""

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from steersman.documents import load_all
from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.commands import REPOSITORY
from tests.node.installation import Installed, check_rights, installed, package
from tests.node.measurements import Measurements
from tests.node.operator_images import OperatorImage, operator_image
from tests.node.operator_tests import operator_tests
from tests.node.pod_network import PodNetwork
from tests.node.server_images import rocketmq_image
from tests.node.volumes import namespace_with_volumes

pytestmark = [pytest.mark.node, pytest.mark.slow]

scenario = operator_tests("rocketmq", "scenario")
servers = operator_tests("rocketmq", "process_cluster")
workload = operator_tests("rocketmq", "workload")

_SAMPLES = REPOSITORY / "operators/rocketmq/config/samples"
_VERSION = "5.5.0"
_SERVERS = ("nameserver", "broker", "controller", "proxy")
_VOLUMES = 16
_CONSOLES = "consoles.rocketmq.daocloud.io"
_BROKER_PODS = "rocketmq.daocloud.io/broker=mq"


class NodeTier:
    """The tier of the scenarios for a real node."""

    def __init__(self, node: RealNode, network: PodNetwork) -> None:
        self.cluster = node
        self._network = network
        self._ports: dict[str, str] = {}

    def ports(self, address: str) -> str:
        """Return an address of this machine that leads to HOST:PORT; HOST is the name or the address of a Pod."""
        if address not in self._ports:
            host, _, port = address.rpartition(":")
            self._ports[address] = "{}:{}".format(*self._network.forward(self._host(host), int(port)))
        return self._ports[address]

    def service(self, name: str, port: int) -> tuple[str, int]:
        """Return an address of this machine that leads to a Service."""
        namespace = self.cluster.namespace
        return self._network.forward(lambda: self._network.service_address(namespace, name), port)

    @contextlib.contextmanager
    def pause(self, pod: str) -> Iterator[None]:
        """Stop the broker of a Pod with SIGSTOP until the block ends."""
        pid = self._process(pod)
        self._signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(pid, signal.SIGCONT)

    def kill(self, pod: str) -> None:
        """Kill the broker of a Pod with SIGKILL."""
        self._signal(self._process(pod), signal.SIGKILL)

    def _host(self, host: str) -> Callable[[], str]:
        if host.replace(".", "").isdigit():
            return lambda: host
        pod, namespace = host.split(".")[0], self.cluster.namespace
        return lambda: self._network.pod_address(namespace, pod)

    def _process(self, pod: str) -> int:
        found = self.cluster.get("pod", pod)
        assert found is not None
        return Installed(self.cluster, "", "").process(found).pid

    def _signal(self, pid: int, number: signal.Signals) -> None:
        self.cluster.inside("kill", f"-{number.value}", str(pid))


def _sample(kind: str, **spec: Any) -> dict[str, Any]:
    """Return the sample of a kind with the name `mq`, for servers of a machine that is busy with other tests."""
    (document,) = load_all((_SAMPLES / f"rocketmq_v1_{kind}.yaml").read_text())
    sample: dict[str, Any] = document.value
    return {**sample, "metadata": {"name": "mq"}, "spec": {**sample["spec"], **spec}}


def _broker(**spec: Any) -> dict[str, Any]:
    timeouts = {key: value for key, value in servers.SMALL_BROKER.items() if key.startswith("waitTime")}
    config = _sample("broker")["spec"]["config"] | timeouts
    return _sample("broker", size=1, config=config, storageReclaimPolicy="Delete", **spec)


@pytest.fixture(scope="module")
def image(node: RealNode, measurements: Measurements) -> OperatorImage:
    found = operator_image("rocketmq")
    images = [rocketmq_image(server, _VERSION) for server in _SERVERS]
    node.import_images(found.archive, *(one.archive for one in images))
    measurements.megabytes("RocketMQ: image of the broker with Java, uncompressed", images[1].bytes)
    return found


@pytest.fixture(scope="module")
def operator(node: RealNode, image: OperatorImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with installed(node, package("rocketmq", tmp_path_factory.mktemp("rocketmq"), image)) as found:
        yield found


@pytest.fixture(scope="module", params=["DLEDGER", "CONTROLLER"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tier(node: RealNode, operator: Installed, mode: str) -> Iterator[NodeTier]:
    with namespace_with_volumes(node, f"queues-{mode.lower()}", _VOLUMES) as network:
        yield NodeTier(node, network)


@pytest.fixture(scope="module")
def routes(tier: NodeTier, mode: str, measurements: Measurements) -> Any:
    """The servers of the samples: two name servers and a group of brokers, with a topic."""
    began = time.monotonic()
    tier.cluster.apply(_sample("nameservice"))
    if mode == "CONTROLLER":
        tier.cluster.apply(_sample("controller", storageReclaimPolicy="Delete"))
    tier.cluster.apply(_broker(**servers.MODES[mode]))
    found = scenario.wait_running(tier.cluster, "the Broker does not run")
    measurements.seconds(f"RocketMQ: samples in mode {mode} until all brokers are in sync", time.monotonic() - began)
    servers.create_topic(tier.cluster, tier.ports, found)
    routes = workload.Routes(tier.ports, lambda: tuple(servers.status(tier.cluster).get("nameServers", ())))
    servers.wait_routed(routes, 1)
    return routes


def test_no_acknowledged_message_is_lost_with_a_master(
    tier: NodeTier, routes: Any, mode: str, measurements: Measurements
) -> None:
    gap = scenario.replaces_lost_masters(tier, routes, [("mq-0", 0), ("mq-0", 1)])
    measurements.seconds(f"RocketMQ: longest time without an acknowledgement, paused master in mode {mode}", gap)


def test_the_servers_have_no_rights_and_fit_their_limits(
    node: RealNode, operator: Installed, tier: NodeTier, routes: Any, mode: str, measurements: Measurements
) -> None:
    del routes
    largest = 0
    for pod in node.list("pods", labels=_BROKER_PODS):
        process = operator.process(pod)
        check_rights(process.status)
        (container,) = pod["status"]["containerStatuses"]
        assert container.get("lastState", {}).get("terminated", {}).get("reason") != "OOMKilled"
        largest = max(largest, process.anonymous_bytes)
    measurements.megabytes(f"RocketMQ: anonymous memory of the largest broker in mode {mode}, limit 1074 MB", largest)
    leader = operator.process(operator.leader())
    check_rights(leader.status)
    measurements.megabytes("RocketMQ: resident memory of the operator", leader.rss_bytes, 50)


def test_a_console_connects_to_the_name_servers_and_answers_at_its_service(tier: NodeTier, routes: Any) -> None:
    """The image of the dashboard is not among the packages of this build; the proxy stands in for it.

    Like the dashboard it reads the name servers from the environment, and listens when it has started.
    """
    del routes
    cluster = [{"name": "ROCKETMQ_CLUSTER", "value": "mq"}]
    tier.cluster.apply(_sample("console", consoleImage=f"rocketmq-proxy:{_VERSION}", nameService="mq", env=cluster))
    console = tier.cluster.wait(_CONSOLES, "mq", "Available", within=180)
    address = tier.service("mq-console", console["spec"]["port"])
    with contextlib.closing(socket.create_connection(address, 10)) as connection:
        connection.settimeout(1)
        with pytest.raises(TimeoutError):  # an open connection on which the server waits for a request
            connection.recv(1)
    tier.cluster.delete(_CONSOLES, "mq", wait=True)


def test_the_page_shows_the_brokers(node: RealNode, operator: Installed, tier: NodeTier, routes: Any) -> None:
    del routes
    where = f"--namespace={operator.namespace}"
    node.kubectl("set", "env", f"deployment/{operator.name}", where, "ROCKETMQ_PAGE_ADDRESS=127.0.0.1:8090")
    operator.wait_available()
    read = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8090/').read().decode())"

    def shown() -> bool:
        pod = operator.leader()["metadata"]["name"]
        return f"{tier.cluster.namespace}/mq" in node.kubectl("exec", where, pod, "--", "python", "-c", read)

    eventually(shown, within=120, what="the Broker on the page")


def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the module: it checks the effects of all others."""
    operator.check_log()
    assert operator.refusals() == []
