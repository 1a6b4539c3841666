"""Shows a database cluster that survives the loss of its primary, and a restore to the second before a mistake.

    make demo OPERATOR=mysqlcluster

Real MariaDB servers run on the embedded cluster. The demo needs Linux, root, and apt (the servers' files are downloaded
once, nothing is installed). It takes less than two minutes.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql
from steersman.logs import configure
from steersman.testing import CallError, EmbeddedCluster, Operators
from steersman.testing.node_faults import NodeFaults, forwarded

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "hack")]

from servers import ServerFilesError, make  # noqa: E402

from mysqlcluster.backup.client import use_archivers  # noqa: E402
from mysqlcluster.connections import HttpsAgentSource, use_agents  # noqa: E402
from mysqlcluster.names import AGENT_PORT, ARCHIVER_PORT  # noqa: E402

MEMBERS = ("shop-0", "shop-1", "shop-2")
CLUSTER: dict[str, Any] = {
    "apiVersion": "database.example.com/v1alpha1",
    "kind": "MySQLCluster",
    "metadata": {"name": "shop"},
    "spec": {
        "size": 3,
        "flavor": "mariadb",
        "version": "10.11",
        "failover": {"detectionSeconds": 1},
        # The lost primary may have logged a transaction that no replica acknowledged; by default the user decides.
        "rejoin": {"errantPolicy": "Reclone"},
        "backup": {"schedule": "0 3 * * *", "target": {"pvc": {"size": "1Gi"}}},
    },
}
BACKUP = {
    "apiVersion": "database.example.com/v1alpha1",
    "kind": "MySQLBackup",
    "metadata": {"name": "first"},
    "spec": {"cluster": "shop"},
}
COPY = "copy"
KIND = "mysqlclusters.database.example.com"
WAIT_SECONDS = 120.0


class Workload(threading.Thread):
    """Writes numbers in sequence to the primary of the cluster's status."""

    def __init__(self, cluster: EmbeddedCluster, ports: dict[str, int], password: str) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._ports = ports
        self.password = password
        self._numbers = itertools.count(1)
        self.acknowledged: list[int] = []
        self.last = time.monotonic()
        self.longest_gap = 0.0
        self.ended = threading.Event()

    def connect(self, member: str) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self._ports[member], user="app", password=self.password, database="app",
            autocommit=True, connect_timeout=2, read_timeout=3, ssl={"check_hostname": False, "verify_mode": False},
        )  # fmt: skip

    def run(self) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(pymysql.Error, OSError, KeyError):
                self._write_to(primary_of(self._cluster))
            self.ended.wait(0.05)

    def _write_to(self, member: str) -> None:
        with contextlib.closing(self.connect(member)) as connection, connection.cursor() as cursor:
            while not self.ended.is_set():
                number = next(self._numbers)
                cursor.execute("INSERT INTO orders VALUES (%s)", (number,))
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - self.last)
                self.last = now
                self.acknowledged.append(number)


def status_of(cluster: EmbeddedCluster, name: str = "shop", kind: str = KIND) -> dict[str, Any]:
    return (cluster.get(kind, name) or {}).get("status") or {}


def password_of(cluster: EmbeddedCluster, name: str) -> str:
    secret = cluster.get("secrets", f"{name}-accounts")
    assert secret is not None
    return base64.b64decode(secret["data"]["application-password"]).decode()


def wait(holds: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds, or end the demo."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"✘ {what}")
        time.sleep(0.05)


def field_of(status: dict[str, Any], outer: str, inner: str) -> Any:
    found: dict[str, Any] = status.get(outer) or {}
    return found.get(inner)


def primary_of(cluster: EmbeddedCluster) -> str:
    return str(status_of(cluster).get("primary", ""))


def wait_healthy(
    cluster: EmbeddedCluster, started: float, workload: Workload | None = None, other_than: str = ""
) -> dict[str, Any]:
    """Wait until every member is in the quorum, and print each change."""
    told = ""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        status = status_of(cluster)
        step = field_of(status, "transition", "step")
        line = f"phase {status.get('phase', '-'):<12} primary {status.get('primary') or '-':<8} step {step or '-'}"
        if line != told:
            told = line
            written = f"   acknowledged {len(workload.acknowledged)}" if workload is not None else ""
            print(f"  {time.monotonic() - started:6.1f} s   {line}{written}", flush=True)
        moved = status.get("primary") != other_than and not step
        if moved and status.get("phase") == "Running" and len(field_of(status, "quorum", "members") or ()) == 3:
            return status
        time.sleep(0.05)
    sys.exit(f"the cluster did not become healthy: {json.dumps(status_of(cluster).get('conditions', []))}")


@contextlib.contextmanager
def running() -> Generator[tuple[EmbeddedCluster, dict[str, int]]]:
    """Start the cluster, the operator in this process, and local ports that forward to the members."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(HERE.resolve()),
            "MYSQLCLUSTER_ROOT": str(make("mariadb-10.11")),
        }
        images = Path(directory) / "images.yaml"
        images.write_text(json.dumps({"images": {"steersman/mariadb": {"env": environment}}}))
        cluster = stack.enter_context(
            EmbeddedCluster.start(nodes=3, node_kind="process", images=images, network="namespaces")
        )
        cluster.create_namespace("demo")
        stack.enter_context(cluster.test("demo"))
        cluster.apply(HERE / "config/crd/bases")
        pods = (*MEMBERS, f"{COPY}-0")
        agents = {name: stack.enter_context(forwarded(cluster, name, AGENT_PORT))[1] for name in pods}
        servers = {name: stack.enter_context(forwarded(cluster, name, 3306))[1] for name in pods}
        archivers = {
            name: stack.enter_context(forwarded(cluster, f"{name}-archiver-0", ARCHIVER_PORT))[1]
            for name in ("shop", COPY)
        }
        use_archivers(lambda key: f"https://localhost:{archivers[key.name]}")
        use_agents(HttpsAgentSource(lambda _, member: f"https://localhost:{agents[member]}"))
        operators = Operators(cluster)
        stack.callback(operators.close)
        operators("mysqlcluster:operator", namespaces=("demo",))
        yield cluster, servers


def main() -> None:
    configure(level="error")
    started = time.monotonic()
    try:
        with running() as (cluster, ports):
            show(cluster, ports, started)
    except (ServerFilesError, OSError) as problem:
        sys.exit(f"this demo cannot run here: {problem}")


def show(cluster: EmbeddedCluster, ports: dict[str, int], started: float) -> None:
    """Create a cluster, write to it, kill its primary, count the remaining rows, and restore it."""
    print("applying a MySQLCluster of three members", flush=True)
    cluster.apply(CLUSTER)
    wait_healthy(cluster, started)
    workload = Workload(cluster, ports, password_of(cluster, "shop"))
    primary = primary_of(cluster)
    with contextlib.closing(workload.connect(primary)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
    workload.start()
    cluster.apply(BACKUP)
    while len(workload.acknowledged) < 200:
        time.sleep(0.05)
    print(f"killing the server of the primary, {primary}, until another member is the primary", flush=True)
    workload.longest_gap = 0.0
    cluster.delete("pods", primary)

    def replaced() -> bool:
        # A server that restarts may be back before the operator detects the loss.
        with contextlib.suppress(CallError):
            NodeFaults(cluster).kill(primary, container="mysql")
        return primary_of(cluster) not in ("", primary)

    wait(replaced, "no other member became the primary")
    status = wait_healthy(cluster, started, workload, other_than=primary)
    before = len(workload.acknowledged)
    wait(lambda: len(workload.acknowledged) >= before + 100, "no write was acknowledged after the failover")
    workload.ended.set()
    workload.join(10)
    acknowledged = set(workload.acknowledged)
    print(f"{len(acknowledged)} writes were acknowledged; the longest gap was {workload.longest_gap:.1f} s")
    for member in MEMBERS:
        role = "primary" if member == status["primary"] else "replica"
        wait(
            lambda member=member: acknowledged <= ids_of(workload, member),
            f"{member} ({role}) lacks acknowledged writes",
        )
        print(f"  {member} ({role}) has all of them")
    print("✔ the cluster moved its primary, and no acknowledged write was lost", flush=True)
    show_restore(cluster, workload, str(status["primary"]), started)


def ids_of(workload: Workload, member: str) -> set[int]:
    """Return the rows of a member; a replica that returns may lack the newest ones for some seconds."""
    with contextlib.closing(workload.connect(member)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM orders")
        return {row[0] for row in cursor.fetchall()}


def show_restore(cluster: EmbeddedCluster, workload: Workload, primary: str, started: float) -> None:
    """Delete all rows, and restore another cluster to the second before the deletion."""
    backups = "mysqlbackups.database.example.com"
    wait(lambda: status_of(cluster, "first", backups).get("phase") == "Completed", "the backup was not completed")
    with contextlib.closing(workload.connect(primary)) as connection, connection.cursor() as cursor:
        cursor.execute("DO SLEEP(1.05 - MOD(UNIX_TIMESTAMP(NOW(6)), 1))")
        cursor.execute("SELECT UNIX_TIMESTAMP()")
        row = cursor.fetchone()
        assert row is not None
        point = datetime.fromtimestamp(int(row[0]), UTC)
        cursor.execute("DELETE FROM orders")
    print(f"  {time.monotonic() - started:6.1f} s   a mistake at {point:%H:%M:%S} UTC: DELETE FROM orders", flush=True)

    def is_archived() -> bool:
        to = field_of(status_of(cluster), "backup", "recoverableTo")
        return bool(to) and datetime.fromisoformat(to) >= point

    wait(is_archived, "the archive did not go on")
    began = time.monotonic()
    print(f"restoring a cluster {COPY!r} to {point:%H:%M:%S} UTC", flush=True)
    restore = {"pointInTime": point.isoformat()}
    spec = {"size": 1, "flavor": "mariadb", "version": "10.11", "fromBackup": "first", "restore": restore}
    cluster.apply({**CLUSTER, "metadata": {"name": COPY}, "spec": spec})
    wait(lambda: status_of(cluster, COPY).get("phase") == "Running", "the copy did not become healthy")
    took = time.monotonic() - began
    workload.password = password_of(cluster, COPY)
    with contextlib.closing(workload.connect(f"{COPY}-0")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM orders")
        missing = set(workload.acknowledged) - {row[0] for row in cursor.fetchall()}
    if missing:
        sys.exit(f"✘ the restored cluster lacks {len(missing)} acknowledged writes")
    print(f"✔ after {took:.1f} s the restored cluster has all {len(workload.acknowledged)} acknowledged writes")
    print(f"{time.monotonic() - started:.0f} s in total")


if __name__ == "__main__":
    main()
