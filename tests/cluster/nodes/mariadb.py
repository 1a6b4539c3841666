"""Three MariaDB servers as a StatefulSet, which know each other by the names of a headless Service only.

They run as the user of their security context. The manifests are the same for process nodes and for a real node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from steersman.testing import eventually
from steersman.testing.cluster_objects import Objects

from .network.web import address_of, is_ready

NAMES = ("db-0", "db-1", "db-2")
IMAGE = "mariadb:10.11"
WAIT_SECONDS = 180.0
VOLUMES = len(NAMES)

Sql: TypeAlias = Callable[[str, str, str], tuple[int, str]]
"""Sends a statement from a Pod to a host; returns the exit code of the client and its output."""

CLIENT = ("mariadb", "--no-defaults", "-uapp", "-psecret", "--connect-timeout=5", "-N", "-B")
"""The command of the client, without the host and the statement."""

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
    "image": IMAGE,
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


def replicates_by_name(cluster: Objects, namespace: str, sql: Sql) -> None:
    """Check that the replicas follow their primary by its name, also when all Pods have new addresses.

    Args:
        cluster: The cluster in which `HEADLESS`, `READERS` and `STATEFUL_SET` are applied.
        namespace: Their namespace.
        sql: A client in the Pods.
    """

    def ready() -> dict[str, str]:
        """Return the addresses of the Pods when all are ready."""
        pods = (cluster.wait("pod", name, is_ready, namespace=namespace, within=WAIT_SECONDS) for name in NAMES)
        return {pod["metadata"]["name"]: address_of(pod) for pod in pods}

    def until(host: str, statement: str, output: str) -> None:
        eventually(lambda: sql("db-1", host, statement), within=WAIT_SECONDS, until=lambda found: found == (0, output))

    before = ready()
    until("db-0.db", "CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.orders (id INT)", "")
    assert sql("db-1", "db-0.db", "INSERT INTO shop.orders VALUES (1)") == (0, "")
    for name in NAMES:
        until(f"{name}.db", "SELECT id FROM shop.orders", "1")

    for name in NAMES:
        cluster.delete("pod", name, namespace=namespace)
    eventually(
        lambda: {name: address_of(cluster.get("pod", name, namespace=namespace) or {}) for name in NAMES},
        within=WAIT_SECONDS,
        until=lambda now: all(address and address != before[name] for name, address in now.items()),
        what="Pods with other addresses",
    )
    ready()
    until("db-0.db", "INSERT INTO shop.orders VALUES (2)", "")
    for name in NAMES:
        until(f"{name}.db", "SELECT COUNT(DISTINCT id) FROM shop.orders", "2")

    reached = {sql("db-2", "readers", "SELECT @@hostname") for _ in range(40)}
    assert reached == {(0, name) for name in NAMES}
