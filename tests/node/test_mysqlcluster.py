"""MySQLCluster in its own image, and MariaDB in the image of the servers, on a real node."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from steersman.documents import load_all
from steersman.testing.real_node import RealNode
from tests.node.commands import REPOSITORY
from tests.node.installation import Installed, check_rights, installed, package
from tests.node.measurements import Measurements
from tests.node.operator_images import OperatorImage, operator_image
from tests.node.operator_tests import operator_tests
from tests.node.pod_network import PodNetwork
from tests.node.server_images import database_image
from tests.node.volumes import namespace_with_volumes

pytestmark = [pytest.mark.node, pytest.mark.slow]

scenario = operator_tests("mysqlcluster", "scenario")

_SAMPLE = REPOSITORY / "operators/mysqlcluster/config/samples/database_v1alpha1_mysqlcluster.yaml"
_NAMESPACE = "shop"
_VOLUMES = 12
_PORT = 3306


class NodeTier:
    """The tier of the scenarios for a real node."""

    def __init__(self, node: RealNode, network: PodNetwork) -> None:
        self.cluster = node
        self._network = network
        self._primaries: dict[str, tuple[str, int]] = {}

    def primary_address(self, name: str) -> tuple[str, int]:
        """Return an address that leads to the Service of the primary."""
        if name not in self._primaries:
            self._primaries[name] = self._network.forward(
                lambda: self._network.service_address(_NAMESPACE, f"{name}-primary"), _PORT
            )
        return self._primaries[name]

    def member_address(self, pod: str) -> contextlib.AbstractContextManager[tuple[str, int]]:
        """Return an address that leads to the server of a member."""
        return self._network.forwarded(lambda: self._network.pod_address(_NAMESPACE, pod), _PORT)

    def kill_server(self, pod: str) -> None:
        """Kill the server with a command in its container."""
        script = "kill -KILL $(cat /var/lib/mysql/run/server.pid)"
        self.cluster.kubectl("exec", f"--namespace={_NAMESPACE}", pod, "--", "sh", "-c", script)


def _sample(**spec: Any) -> dict[str, Any]:
    (document,) = load_all(_SAMPLE.read_text())
    sample: dict[str, Any] = document.value
    return {**sample, "spec": {**sample["spec"], **spec}}


def _server_process(node: RealNode, pod: str) -> Mapping[str, str]:
    """Return `/proc/PID/status` of the database server of a member."""
    script = "cat /proc/$(cat /var/lib/mysql/run/server.pid)/status"
    text = node.kubectl("exec", f"--namespace={_NAMESPACE}", pod, "--", "sh", "-c", script)
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


@pytest.fixture(scope="module")
def image(node: RealNode, measurements: Measurements) -> OperatorImage:
    found = operator_image("mysqlcluster")
    server = database_image("mariadb", "11.8", "trixie")
    node.import_images(found.archive, server.archive)
    measurements.megabytes("MySQLCluster: image of MariaDB 11.8 with the agent, uncompressed", server.bytes)
    return found


@pytest.fixture(scope="module")
def operator(node: RealNode, image: OperatorImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with installed(node, package("mysqlcluster", tmp_path_factory.mktemp("mysqlcluster"), image)) as found:
        yield found


@pytest.fixture(scope="module")
def tier(node: RealNode, operator: Installed) -> Iterator[NodeTier]:
    with namespace_with_volumes(node, _NAMESPACE, _VOLUMES) as network:
        yield NodeTier(node, network)


@pytest.fixture(scope="module")
def database(tier: NodeTier, measurements: Measurements) -> Any:
    """The cluster of the sample, with backups to a volume."""
    backup = {"schedule": "0 3 * * *", "target": {"pvc": {"size": "1Gi"}}}
    began = time.monotonic()
    found = scenario.started(tier, _sample(backup=backup, **scenario.SPEC))
    measurements.seconds("MySQLCluster: sample of three members until all replicate", time.monotonic() - began)
    return found


def test_no_acknowledged_write_is_lost_with_the_primary(database: Any, measurements: Measurements) -> None:
    with scenario.Writers(database) as writers:
        writers.wait_acknowledged()
        scenario.survives_a_killed_server(database, writers)
        gap = scenario.survives_the_loss_of_the_primary(database, writers)
        scenario.moves_its_primary(database, writers)
    scenario.check_history(database, writers)
    measurements.seconds("MySQLCluster: longest time without an acknowledged write, Pod of the primary lost", gap)


def test_a_backup_is_restored_into_another_cluster(database: Any) -> None:
    copy = _sample(size=1, fromBackup="before-migration") | {"metadata": {"name": "copy"}}
    scenario.restores_a_backup(database, copy)


def test_the_processes_have_no_rights_on_their_machine(
    node: RealNode, operator: Installed, database: Any, measurements: Measurements
) -> None:
    process = operator.process(operator.leader())
    member = _server_process(node, database.wait_healthy()["primary"])
    check_rights(process.status)
    check_rights(member)
    measurements.megabytes("MySQLCluster: resident memory of the operator with two clusters", process.rss_bytes, 50)
    rss = int(member["VmRSS"].split()[0]) * 1024
    measurements.megabytes("MySQLCluster: resident memory of the MariaDB server of the primary", rss)


def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the installation: it checks the effects of all others."""
    operator.check_log()
    assert operator.refusals() == []
