"""ConfigMonitor in the ambassador layout on a real node: a container of `kubectl proxy`, and one of the operator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.real_node import RealNode, program_image
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.commands import REPOSITORY
from tests.node.installation import Installed
from tests.node.operator_images import operator_image

pytestmark = pytest.mark.node

_CONFIG = REPOSITORY / "operators" / "configmonitor" / "config"
_KUBECTL_IMAGE = "docker.io/library/kubectl:v1.36.2"
_NAME = "configmonitor-ambassador"


def _objects() -> list[dict[str, Any]]:
    labels = {"app": "web"}
    container = {"name": "main", "image": PAUSE_IMAGE}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
                },
            },
        },
        {
            "apiVersion": "magalix.com/v1",
            "kind": "ConfigMonitor",
            "metadata": {"name": "web"},
            "spec": {"configMap": "settings", "podSelector": labels},
        },
    ]


@pytest.fixture(scope="module")
def crd(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    kubectl = node.binaries.kubectl()
    assert kubectl is not None
    archive = tmp_path_factory.mktemp("kubectl") / "kubectl.tar"
    program_image(kubectl, _KUBECTL_IMAGE, archive)
    node.import_images(archive, operator_image("configmonitor").archive)
    definition = _CONFIG / "crd" / "bases" / "magalix.com_configmonitors.yaml"
    node.apply(definition)
    yield definition
    node.kubectl("delete", "-f", str(definition), timeout=120)


@pytest.mark.usefixtures("crd")
def test_a_change_of_a_configmap_restarts_pods_through_a_proxy_that_is_restarted(
    node: RealNode, namespace: str
) -> None:
    node.kubectl("apply", f"--namespace={namespace}", "-f", str(_CONFIG / "ambassador"))
    node.wait("deployment", _NAME, "Available", namespace=namespace, within=120)
    node.apply(*_objects(), namespace=namespace)
    node.wait("deployment", "web", "Available", namespace=namespace, within=60)
    node.wait("configmonitors.magalix.com", "web", "Ready", namespace=namespace, within=60)

    def pods() -> set[str]:
        return {pod["metadata"]["uid"] for pod in node.list("pods", namespace=namespace, labels="app=web")}

    def change(colour: str) -> None:
        before = pods()
        node.patch("configmap", "settings", {"data": {"colour": colour}}, namespace=namespace)
        eventually(
            lambda: len(now := pods()) == 2 and not before & now,
            within=90,
            what=f"other Pods after the change to {colour}",
        )
        node.wait("deployment", "web", "Available", namespace=namespace, within=60)

    change("red")
    (pod,) = node.list("pods", namespace=namespace, labels="app.kubernetes.io/name=configmonitor")
    proxies = node.inside("pgrep", "-f", "^kubectl proxy").split()
    assert len(proxies) == 1
    node.inside("kill", "-9", *proxies)
    node.wait(
        "pod",
        pod["metadata"]["name"],
        lambda one: any(s["name"] == "proxy" and s["restartCount"] == 1 for s in one["status"]["containerStatuses"]),
        namespace=namespace,
        within=60,
    )
    change("green")
    operator = Installed(node, "configmonitor", namespace)
    assert operator.refusals() == []
    (pod,) = node.list("pods", namespace=namespace, labels="app.kubernetes.io/name=configmonitor")
    restarts = {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}
    assert restarts == {"proxy": 1, "operator": 0}
