"""The whole operator on process nodes: Pods with real MariaDB servers that connect to each other by DNS name."""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql
import pytest
from steersman.testing import Cluster, EmbeddedCluster, Operators
from steersman.testing.node_faults import NodeFaults, forwarded

from mysqlcluster.connections import HttpsAgentSource, use_agents
from mysqlcluster.names import AGENT_PORT, ROLE_LABEL

from . import scenario
from .members import server_root

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[1]
NAMES = ("db-0", "db-1", "db-2")
WAIT_SECONDS = 120.0
CLUSTER: dict[str, Any] = {
    "apiVersion": "database.example.com/v1alpha1",
    "kind": "MySQLCluster",
    "metadata": {"name": "db"},
    "spec": {
        "size": 3,
        "flavor": "mariadb",
        "version": "10.11",
        **scenario.SPEC,
    },
}


def manifest(**spec: Any) -> dict[str, Any]:
    """Return the cluster with other values in its spec."""
    return {**CLUSTER, "spec": {**CLUSTER["spec"], **spec}}


@contextlib.contextmanager
def process_cluster(directory: Path, images: Mapping[str, str]) -> Iterator[EmbeddedCluster]:
    """Run a cluster with an image of each server's files and of this Python for the agent."""
    made: dict[str, Any] = {}
    for image, server in images.items():
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(PROJECT),
            "MYSQLCLUSTER_ROOT": str(server_root(server)),
        }
        made[image] = {"env": environment}
    (directory / "images.yaml").write_text(json.dumps({"images": made}))
    try:
        cluster = EmbeddedCluster.start(
            nodes=3, node_kind="process", images=directory / "images.yaml", network="namespaces"
        )
    except OSError as problem:
        pytest.skip(f"Pods cannot have networks of their own here: {problem}")
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster with the image of MariaDB 10.11."""
    with process_cluster(tmp_path_factory.mktemp("images"), {"steersman/mariadb": "mariadb-10.11"}) as cluster:
        yield cluster


@contextlib.contextmanager
def operated(
    processes: EmbeddedCluster, manifest: Mapping[str, Any], namespace: str = "shop"
) -> Iterator[EmbeddedCluster]:
    """Run a cluster of three members, and the operator in this process."""
    processes.create_namespace(namespace)
    with processes.test(namespace), contextlib.ExitStack() as stack:
        processes.apply(PROJECT / "config" / "crd" / "bases")
        ports: dict[str, int] = {}
        for name in NAMES:
            _, ports[name] = stack.enter_context(forwarded(processes, name, AGENT_PORT))
        use_agents(HttpsAgentSource(lambda _, member: f"https://localhost:{ports[member]}"))
        operators = Operators(processes)
        try:
            operators("mysqlcluster:operator", namespaces=(namespace,))
            processes.apply(manifest)
            yield processes
        finally:
            operators.close()
            use_agents(HttpsAgentSource())
    processes.delete_namespace(namespace)


@pytest.fixture
def database(processes: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster of MariaDB."""
    with operated(processes, CLUSTER) as cluster:
        yield cluster


def until(holds: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def status(cluster: Cluster) -> dict[str, Any]:
    return (cluster.get("mysqlclusters.database.example.com", "db") or {}).get("status") or {}


def healthy(cluster: Cluster) -> dict[str, Any]:
    """Return the status of a cluster in which every member follows the primary."""
    found = status(cluster)
    return found if found.get("phase") == "Running" and len(found["quorum"]["members"]) == 3 else {}


@contextlib.contextmanager
def application(cluster: EmbeddedCluster, member: str, owner: str = "db") -> Iterator[Any]:
    secret = cluster.get("secrets", f"{owner}-accounts")["data"]
    password = base64.b64decode(secret["application-password"]).decode()
    with forwarded(cluster, member, 3306) as (host, port):
        connection = pymysql.connect(
            host=host,
            port=port,
            user="app",
            password=password,
            database="app",
            autocommit=True,
            ssl={"check_hostname": False, "verify_mode": False},
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            yield cursor


class ProcessTier:
    """The tier of the scenarios for process nodes."""

    def __init__(self, cluster: EmbeddedCluster, ports: Mapping[str, tuple[str, int]]) -> None:
        self.cluster = cluster
        self._ports = ports

    def primary_address(self, name: str) -> tuple[str, int]:
        """Return an address that leads to the primary that the Service selects."""
        pods = self.cluster.list("pods", labels=f"mysqlcluster_cr={name},{ROLE_LABEL}=primary")
        if not pods:
            raise LookupError(f"{name} has no primary")
        return self._ports[pods[0]["metadata"]["name"]]

    def member_address(self, pod: str) -> contextlib.AbstractContextManager[tuple[str, int]]:
        """Return an address that leads to the server of a member."""
        return contextlib.nullcontext(self._ports[pod])

    def kill_server(self, pod: str) -> None:
        """Kill the processes of the container of a member."""
        NodeFaults(self.cluster).kill(pod, container="mysql")


@contextlib.contextmanager
def tier_of(cluster: EmbeddedCluster) -> Iterator[ProcessTier]:
    """Forward a port of this machine to each server."""
    with contextlib.ExitStack() as stack:
        yield ProcessTier(cluster, {name: stack.enter_context(forwarded(cluster, name, 3306)) for name in NAMES})


def survives_the_loss_of_its_primary(cluster: EmbeddedCluster, manifest: Mapping[str, Any]) -> None:
    """Run the scenario of a lost primary on a cluster whose MySQLCluster was applied."""
    with tier_of(cluster) as tier:
        database = scenario.started(tier, manifest)
        with scenario.Writers(database) as writers:
            writers.wait_acknowledged()
            scenario.survives_the_loss_of_the_primary(database, writers)
            scenario.moves_its_primary(database, writers)
        scenario.check_history(database, writers)


def test_a_cluster_of_real_servers_survives_the_loss_of_its_primary(database: EmbeddedCluster):
    survives_the_loss_of_its_primary(database, CLUSTER)
