"""Three MariaDB servers on process nodes, which know each other by the names of a headless Service only.

Where the tests are not root, the nodes cannot take the user of the security context, and the servers run as root of a
user namespace.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.testing import EmbeddedCluster

from ..mariadb import CLIENT, HEADLESS, IMAGE, READERS, STATEFUL_SET, replicates_by_name
from .conftest import unavailable

pytestmark = pytest.mark.slow
SERVERS = Path(__file__).parents[4] / "operators/mysqlcluster/hack/servers.py"
NAMESPACE = "databases"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
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
    images.write_text(json.dumps({"images": {IMAGE: {"env": environment}}}))
    with EmbeddedCluster.start(nodes=3, node_kind="process", images=images, network="namespaces") as cluster:
        cluster.create_namespace(NAMESPACE)
        with cluster.test(NAMESPACE):
            cluster.apply(HEADLESS, READERS, STATEFUL_SET)
            yield cluster


def test_replicas_follow_their_primary_by_name_through_new_addresses(cluster: EmbeddedCluster) -> None:
    def sql(client: str, host: str, statement: str) -> tuple[int, str]:
        async def run() -> tuple[int, str]:
            assert cluster.cluster.nodes is not None
            kubelet = cluster.cluster.nodes.kubelets["node-1"]
            command = [*CLIENT, f"--host={host}", "-e", statement]
            session = await kubelet.exec(NAMESPACE, client, "", command, stdin=False, tty=False)
            try:
                output = b"".join([data async for _, data in session])
                return await session.wait(), output.decode(errors="replace").strip()
            finally:
                await session.close()

        return cluster.run(run)

    replicates_by_name(cluster, NAMESPACE, sql)
