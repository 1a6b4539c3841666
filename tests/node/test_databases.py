"""Three MariaDB servers from the manifests for process nodes, on a real node."""

from collections.abc import Iterator

import pytest

from steersman.testing.cluster import KubectlError
from steersman.testing.real_node import RealNode
from tests.cluster.nodes.mariadb import CLIENT, HEADLESS, IMAGE, READERS, STATEFUL_SET, VOLUMES, replicates_by_name
from tests.node.containerd import tag_image
from tests.node.server_images import database_image
from tests.node.volumes import add_volumes, remove_volumes

pytestmark = [pytest.mark.node, pytest.mark.slow]

_NAMESPACE = "databases"


@pytest.fixture
def databases(node: RealNode) -> Iterator[None]:
    image = database_image("mariadb", "10.11", "bookworm")
    node.import_images(image.archive)
    tag_image(node, image.name, f"docker.io/library/{IMAGE}")
    add_volumes(node, _NAMESPACE, VOLUMES)
    node.create_namespace(_NAMESPACE)
    node.apply(HEADLESS, READERS, STATEFUL_SET, namespace=_NAMESPACE)
    yield
    node.kubectl("delete", "namespace", _NAMESPACE, "--wait=true", timeout=120)
    remove_volumes(node, _NAMESPACE, VOLUMES)


@pytest.mark.usefixtures("databases")
def test_replicas_follow_their_primary_by_name_through_new_addresses(node: RealNode) -> None:
    def sql(client: str, host: str, statement: str) -> tuple[int, str]:
        command = [*CLIENT, f"--host={host}", "-e", statement]
        try:
            return 0, node.kubectl("exec", f"--namespace={_NAMESPACE}", client, "--", *command).strip()
        except KubectlError as error:
            return 1, str(error)

    replicates_by_name(node, _NAMESPACE, sql)
