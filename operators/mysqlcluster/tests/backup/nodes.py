"""Clusters with backups on process nodes: agents and archivers behind local ports, an S3 server in a Pod."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from steersman.testing import Cluster, EmbeddedCluster, Operators
from steersman.testing.node_faults import forwarded

from mysqlcluster.backup.client import use_archivers
from mysqlcluster.connections import HttpsAgentSource, use_agents
from mysqlcluster.names import AGENT_PORT, ARCHIVER_PORT
from tests.backup.archivers import BUCKET, ENCRYPTION_KEY, KEYS
from tests.members import ROOT
from tests.test_process_nodes import until

KIND = "mysqlclusters.database.example.com"
COMPACT = "mysqlclusters.cr.mysqloperator.grtl.github.com"
BACKUPS = "mysqlbackups.database.example.com"
S3_PORT = 7070

_numbers = itertools.count(1)


class Place(NamedTuple):
    """A namespace for two clusters, `db` and `copy`, and the local ports that forward to their Pods."""

    cluster: EmbeddedCluster
    ports: dict[str, int]


@contextlib.contextmanager
def place_of(cluster: EmbeddedCluster) -> Iterator[Place]:
    """Create the namespace, and make operators in this process connect to Pods through local ports."""
    # Each test has its own namespace: the previous one may be terminating, because finalizers of backups need an
    # operator.
    namespace = f"store-{next(_numbers)}"
    cluster.create_namespace(namespace)
    with cluster.test(namespace), contextlib.ExitStack() as stack:
        cluster.apply(ROOT / "config" / "crd" / "bases")
        ports: dict[str, int] = {}
        for owner in ("db", "copy"):
            for name, port in ((f"{owner}-0", AGENT_PORT), (f"{owner}-archiver-0", ARCHIVER_PORT)):
                ports[name] = stack.enter_context(forwarded(cluster, name, port))[1]
        use_ports(ports)
        try:
            yield Place(cluster, ports)
        finally:
            use_agents(HttpsAgentSource())
            use_archivers()
    cluster.delete_namespace(namespace)


def use_ports(ports: dict[str, int]) -> None:
    """Make the operator in this process connect to agents and archivers through local ports."""
    use_agents(HttpsAgentSource(lambda _, member: f"https://localhost:{ports[member]}"))
    use_archivers(lambda key: f"https://localhost:{ports[f'{key.name}-archiver-0']}")


@contextlib.contextmanager
def operator_on(cluster: Cluster) -> Iterator[None]:
    """Run the operator in this process, with its declared permissions."""
    operators = Operators(cluster)
    try:
        operators("mysqlcluster:operator", namespaces=(cluster.namespace,))
        yield
    finally:
        operators.close()


class OperatorProcess:
    """The operator as a separate process, which a test can kill."""

    def __init__(self, place: Place, directory: Path) -> None:
        self._log = directory / "operator.log"
        ports = directory / "ports.json"
        ports.write_text(json.dumps(place.ports))
        self._command = [
            sys.executable, "-m", "tests.backup.operator_process", str(ports),
            "run", "mysqlcluster:operator", "--kubeconfig", str(place.cluster.kubeconfig),
            "--namespace", place.cluster.namespace, "--no-leader-elect",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(self._command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def cluster_of(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLCluster",
        "metadata": {"name": name},
        "spec": {"size": 1, "flavor": "mariadb", "version": "10.11", **spec},
    }


def backup_of(name: str, cluster: str = "db") -> dict[str, Any]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLBackup",
        "metadata": {"name": name},
        "spec": {"cluster": cluster},
    }


def compact(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    version = "cr.mysqloperator.grtl.github.com/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def s3_in_pod(cluster: Cluster) -> dict[str, Any]:
    """Run an S3 server in a Pod, and return a target on it, with the name of its Secret."""
    made = subprocess.run(
        [sys.executable, str(ROOT / "hack/s3_server.py")], capture_output=True, text=True, timeout=900
    )
    if made.returncode:
        pytest.skip(made.stderr.strip())
    program = made.stdout.strip()
    command = f"mkdir -p /objects/{BUCKET} && exec {program} --port 0.0.0.0:{S3_PORT} --quiet posix /objects"
    environment = {"ROOT_ACCESS_KEY": KEYS["accessKeyId"], "ROOT_SECRET_KEY": KEYS["secretAccessKey"]}
    container = {
        "name": "s3",
        "image": "steersman/mariadb:10.11",
        "command": ["/bin/sh", "-c", command],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "readinessProbe": {"tcpSocket": {"port": S3_PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "objects", "mountPath": "/objects"}],
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "s3", "labels": {"app": "s3"}},
            "spec": {"containers": [container], "volumes": [{"name": "objects", "emptyDir": {}}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s3"},
            "spec": {"selector": {"app": "s3"}, "ports": [{"port": S3_PORT}]},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-account"}, "stringData": KEYS},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "seal"}, "stringData": {"key": ENCRYPTION_KEY}},
    )
    until(lambda: _is_ready(cluster, "s3"), "the S3 server did not become ready")
    return {
        "s3": {
            "endpoint": f"http://s3.{cluster.namespace}.svc:{S3_PORT}",
            "bucket": BUCKET,
            "prefix": "of/shop",
            "credentialsSecret": "s3-account",
        }
    }


def _is_ready(cluster: Cluster, pod: str) -> bool:
    found = (cluster.get("pods", pod) or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def status(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    return (cluster.get(kind, name) or {}).get("status") or {}


def is_running(cluster: Cluster, name: str, kind: str = KIND) -> bool:
    return status(cluster, kind, name).get("phase") == "Running"


def next_second(cursor: Any) -> datetime:
    """Wait for the next second of the server's clock, and return it."""
    cursor.execute("DO SLEEP(1.05 - MOD(UNIX_TIMESTAMP(NOW(6)), 1))")
    cursor.execute("SELECT UNIX_TIMESTAMP()")
    return datetime.fromtimestamp(int(cursor.fetchone()[0]), UTC)


def reaches(cluster: Cluster, point: datetime) -> bool:
    """Return whether the archive of `db` is complete until a time."""
    to = (status(cluster, KIND, "db").get("backup") or {}).get("recoverableTo")
    return bool(to) and datetime.fromisoformat(to) >= point


def numbers(cursor: Any) -> list[int]:
    cursor.execute("SELECT id FROM items ORDER BY id")
    return [row[0] for row in cursor.fetchall()]


def holds_secret(value: object) -> bool:
    """Return whether a value contains a credential of the target or the encryption key."""
    text = json.dumps(value, default=str)
    secrets = (KEYS["secretAccessKey"], ENCRYPTION_KEY)
    return any(each in text or base64.b64encode(each.encode()).decode() in text for each in secrets)
