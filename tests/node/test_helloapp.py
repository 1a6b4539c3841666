"""HelloApp in its own image, from install.yaml, on a real node."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from steersman.testing.controlplane_cluster import KubectlError
from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from tests.node.installation import Installed, installed, package
from tests.node.measurements import Measurements
from tests.node.metrics_access import check_metrics_access
from tests.node.network_policies import check_network_policies
from tests.node.operator_images import OperatorImage, operator_image

pytestmark = pytest.mark.node

_KIND = "helloapps.apps.anupam.com"


def _app(name: str, size: int) -> dict[str, Any]:
    spec = {"image": PAUSE_IMAGE, "size": size}
    return {"apiVersion": "apps.anupam.com/v1", "kind": "HelloApp", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def image(node: RealNode, measurements: Measurements) -> OperatorImage:
    found = operator_image("helloapp")
    node.import_images(found.archive)
    measurements.megabytes("HelloApp: image above its base", found.bytes_above_base, 60)
    return found


@pytest.fixture(scope="module")
def operator(
    node: RealNode, image: OperatorImage, tmp_path_factory: pytest.TempPathFactory, measurements: Measurements
) -> Iterator[Installed]:
    shipped = package("helloapp", tmp_path_factory.mktemp("helloapp"), image)
    with installed(node, "HelloApp", shipped, measurements) as found:
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


def test_the_process_has_no_rights_on_its_machine(operator: Installed, measurements: Measurements) -> None:
    pod = operator.leader()
    process = operator.process(pod)
    assert process.status["Uid"].split() == ["65532"] * 4
    assert process.status["NoNewPrivs"] == "1"
    assert process.status["Seccomp"] == "2"
    assert int(process.status["CapEff"], 16) == 0
    assert int(process.status["CapBnd"], 16) == 0
    write = ["python", "-c", "open('/file', 'w')"]
    with pytest.raises(KubectlError, match="Read-only file system"):
        operator.node.kubectl("exec", f"--namespace={operator.namespace}", pod["metadata"]["name"], "--", *write)
    measurements.megabytes("HelloApp: resident memory of the idle operator", process.rss_bytes, 50)


def test_network_policies_select_the_pods_and_open_their_ports(operator: Installed) -> None:
    check_network_policies(operator, "helloapp")


def test_metrics_are_for_those_who_may_read_them(
    node: RealNode, operator: Installed, image: OperatorImage, namespace: str
) -> None:
    check_metrics_access(node, operator, image, namespace)


def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the module: it judges all that the others did."""
    operator.check_log()
    assert operator.refusals() == []
    assert json.dumps(operator.log()[0])
