"""Three MariaDB servers as a StatefulSet, which know each other by the names of a headless Service only.

They run as the user of their security context. Where the tests are not root, the nodes cannot take that user, and the
servers run as root of a user namespace.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.testing import EmbeddedCluster, eventually

from .conftest import unavailable
from .web import address_of, is_ready

pytestmark = pytest.mark.slow
SERVERS = Path(__file__).parents[4] / "operators/mysqlcluster/hack/servers.py"
NAMESPACE = "databases"
NAMES = ("db-0", "db-1", "db-2")
WAIT_SECONDS = 180.0
# The variable is set where the server's files are in a directory of their own; images do without.
START = """
set -eu
ordinal=${HOSTNAME##*-}
files=${MARIADB_BASEDIR:+--basedir=$MARIADB_BASEDIR --lc-messages-dir=$MARIADB_BASEDIR/share/mysql}
user=$([ "$(id -u)" != 0 ] || echo --user=root)
if [ ! -d /data/db/mysql ]; then
  mariadb-install-db --no-defaults $files $user --datadir=/data/db --skip-test-db --skip-name-resolve \
    --auth-root-authentication-method=normal >/tmp/install.log 2>&1
fi
if [ "$ordinal" = 0 ]; then
  cat >/tmp/init.sql <<END
CREATE USER IF NOT EXISTS 'replica'@'%' IDENTIFIED BY 'secret';
GRANT REPLICATION SLAVE ON *.* TO 'replica'@'%';
CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY 'secret';
GRANT ALL ON shop.* TO 'app'@'%';
END
else
  cat >/tmp/init.sql <<END
CHANGE MASTER TO MASTER_HOST='db-0.db', MASTER_USER='replica', MASTER_PASSWORD='secret', MASTER_CONNECT_RETRY=1, \
MASTER_USE_GTID=slave_pos;
START SLAVE;
END
fi
exec mariadbd --no-defaults $files $user --datadir=/data/db --server-id=$((ordinal + 1)) --log-bin=binlog \
  --log-slave-updates --skip-name-resolve --skip-slave-start --slave-net-timeout=5 --init-file=/tmp/init.sql \
  --socket=/tmp/server.sock --innodb-buffer-pool-size=32M --performance-schema=off
"""
LABELS = {"app": "db"}
PORTS = [{"name": "mysql", "port": 3306}]
HEADLESS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "db"},
    "spec": {"clusterIP": "None", "selector": LABELS, "ports": PORTS},
}
READERS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "readers"},
    "spec": {"selector": LABELS, "ports": PORTS},
}
CONTAINER = {
    "name": "mariadb",
    "image": "mariadb:10.11",
    "command": ["sh", "-c", START],
    "ports": [{"name": "mysql", "containerPort": 3306}],
    "readinessProbe": {
        "exec": {"command": ["mariadb-admin", "--no-defaults", "--socket=/tmp/server.sock", "-uroot", "ping"]},
        "periodSeconds": 1,
        "timeoutSeconds": 10,
    },
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
USER = {"runAsNonRoot": True, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999}
STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "replicas": 3,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"terminationGracePeriodSeconds": 10, "securityContext": USER, "containers": [CONTAINER]},
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    },
}


class Databases:
    """The servers of one cluster, and statements that a client in a Pod sends to a host."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def ready(self) -> dict[str, dict[str, Any]]:
        for name in NAMES:
            self.cluster.wait("pod", name, is_ready, namespace=NAMESPACE, within=WAIT_SECONDS)
        return {name: self.pod(name) for name in NAMES}

    def sql(self, host: str, statement: str, *, client: str = "db-1") -> tuple[int, str]:
        """Send statements from the Pod `client`; return the client's exit code and its output."""
        options = ["--no-defaults", "--host", host, "-uapp", "-psecret", "--connect-timeout=5", "-N", "-B"]

        async def run() -> tuple[int, str]:
            assert self.cluster.cluster.nodes is not None
            kubelet = self.cluster.cluster.nodes.kubelets["node-1"]
            command = ["mariadb", *options, "-e", statement]
            session = await kubelet.exec(NAMESPACE, client, "", command, stdin=False, tty=False)
            try:
                output = b"".join([data async for _, data in session])
                return await session.wait(), output.decode(errors="replace").strip()
            finally:
                await session.close()

        return self.cluster.run(run)

    def until(self, host: str, statement: str, output: str) -> None:
        """Wait until a host gives this output."""
        eventually(lambda: self.sql(host, statement), within=WAIT_SECONDS, until=lambda found: found == (0, output))


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Databases]:
    if reason := unavailable():
        pytest.skip(reason)
    made = subprocess.run(
        [sys.executable, str(SERVERS), "mariadb-10.11"], capture_output=True, text=True, timeout=600, check=False
    )
    if made.returncode:
        pytest.skip(made.stderr.strip())
    root = made.stdout.strip()
    environment = {
        "PATH": f"{root}/usr/bin:{root}/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu",
        "MARIADB_BASEDIR": f"{root}/usr",
    }
    images = tmp_path / "images.yaml"
    images.write_text(json.dumps({"images": {"mariadb:10.11": {"env": environment}}}))
    with EmbeddedCluster.start(nodes=3, node_kind="process", images=images, network="namespaces") as cluster:
        cluster.create_namespace(NAMESPACE)
        with cluster.test(NAMESPACE):
            cluster.apply(HEADLESS, READERS, STATEFUL_SET)
            yield Databases(cluster)


def test_replicas_follow_their_primary_by_name_through_new_addresses(databases: Databases) -> None:
    before = databases.ready()
    databases.until(
        "db-0.db", "CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.orders (id INT)", ""
    )
    assert databases.sql("db-0.db", "INSERT INTO shop.orders VALUES (1)") == (0, "")
    for name in NAMES:
        databases.until(f"{name}.db", "SELECT id FROM shop.orders", "1")

    for name in NAMES:
        databases.cluster.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    for name in NAMES:
        old = before[name]["metadata"]["uid"]
        eventually(
            lambda name=name, old=old: databases.cluster.get("pod", name, namespace=NAMESPACE),
            within=WAIT_SECONDS,
            until=lambda found, old=old: found is not None and found["metadata"]["uid"] != old and is_ready(found),
        )
    after = databases.ready()
    for name in NAMES:
        assert address_of(after[name]) != address_of(before[name])
    databases.until("db-0.db", "INSERT INTO shop.orders VALUES (2)", "")
    for name in NAMES:
        databases.until(f"{name}.db", "SELECT COUNT(DISTINCT id) FROM shop.orders", "2")

    reached = {databases.sql("readers", "SELECT @@hostname", client="db-2") for _ in range(40)}
    assert reached == {(0, name) for name in NAMES}
