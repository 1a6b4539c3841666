"""HelloApp in its own image, from install.yaml, on a real node."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from tests.node.installation import Installed, installed, package
from tests.node.measurements import Measurements
from tests.node.operator_images import operator_image

pytestmark = pytest.mark.node

_KIND = "helloapps.apps.anupam.com"


def _app(name: str, size: int) -> dict[str, Any]:
    spec = {"image": PAUSE_IMAGE, "size": size}
    return {"apiVersion": "apps.anupam.com/v1", "kind": "HelloApp", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def operator(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    image = operator_image("helloapp")
    node.import_images(image.archive)
    with installed(node, package("helloapp", tmp_path_factory.mktemp("helloapp"), image)) as found:
        yield found


def test_an_application_becomes_a_deployment_whose_pods_run(
    node: RealNode, operator: Installed, namespace: str, measurements: Measurements
) -> None:
    began = time.time()
    node.apply(_app("web", 2), namespace=namespace)
    node.wait(_KIND, "web", "Ready", namespace=namespace, within=60)
    measurements.seconds("HelloApp: application of two Pods until Ready", time.time() - began)
    pods = node.list("pods", namespace=namespace)
    assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]
    assert node.get(_KIND, "web", namespace=namespace)["status"]["readyReplicas"] == 2  # type: ignore[index]

    node.apply(_app("web", 1), namespace=namespace)
    node.wait(_KIND, "web", lambda app: app["status"].get("readyReplicas") == 1, namespace=namespace, within=60)
    node.delete(_KIND, "web", namespace=namespace, wait=True)
    node.wait("deployment", "web", "deleted", namespace=namespace)


def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the module: it checks the effects of all others."""
    operator.check_log()
    assert operator.refusals() == []
    assert json.dumps(operator.log()[0])
