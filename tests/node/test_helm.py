"""HelloApp from its Helm chart on a real node: install, upgrade, roll-back, uninstall, and install again."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.base_image import run
from tests.node.installation import Installed, Package, package
from tests.node.operator_images import operator_image

pytestmark = pytest.mark.node

_TOOLS = Path(os.environ.get("STEERSMAN_TOOLS") or Path.home() / ".cache/steersman/tools")
_KIND = "helloapps.apps.anupam.com"
_NAMESPACE = "helloapp-by-helm"


class Helm:
    """Helm with the administrator's kubeconfig, for one release."""

    def __init__(self, node: RealNode, package: Package) -> None:
        assert (_TOOLS / "helm").exists(), "helm is missing: sh hack/tools.sh helm"
        self._env = {**os.environ, "KUBECONFIG": str(node.kubeconfig), "HELM_CACHE_HOME": str(node.directory / "helm")}
        self.package = package

    def __call__(self, verb: str, *words: str) -> str:
        """Run one verb on the release; it returns when the release is ready."""
        wait = ["--wait", "--timeout=120s"] if verb in ("install", "upgrade", "rollback", "uninstall") else []
        line = [str(_TOOLS / "helm"), verb, "apps", *words, f"--namespace={_NAMESPACE}", *wait]
        return run(*line, env=self._env)

    def install(self) -> None:
        """Install the chart."""
        self("install", str(self.package.chart), "--create-namespace")

    def status(self) -> tuple[str, int]:
        """Return the status and the revision of the release."""
        facts: dict[str, Any] = json.loads(self("status", "--output=json"))
        return facts["info"]["status"], facts["version"]


@pytest.fixture(scope="module")
def helm(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    image = operator_image("helloapp")
    node.import_images(image.archive)
    found = Helm(node, package("helloapp", tmp_path_factory.mktemp("helloapp"), image, "--namespace", _NAMESPACE))
    yield found
    for name in (f"namespace/{_NAMESPACE}", f"crd/{_KIND}"):
        node.kubectl("delete", name, "--ignore-not-found", timeout=120)


def test_a_release_lives_through_upgrade_rollback_and_reinstallation(
    node: RealNode, helm: Helm, namespace: str
) -> None:
    helm.install()
    operator = Installed(node, helm.package.name, _NAMESPACE)
    operator.wait_available()
    spec = {"image": PAUSE_IMAGE, "size": 1}
    app = {"apiVersion": "apps.anupam.com/v1", "kind": "HelloApp", "metadata": {"name": "web"}, "spec": spec}
    node.apply(app, namespace=namespace)
    node.wait(_KIND, "web", "Ready", namespace=namespace, within=60)

    helm("upgrade", str(helm.package.chart), "--set", "replicas=2")
    operator.wait_available()
    assert len(operator.pods()) == 2
    assert helm.status() == ("deployed", 2)

    helm("rollback", "1")
    operator.wait_available()
    assert len(operator.pods()) == 1
    assert helm.status() == ("deployed", 3)
    assert operator.errors() == []
    assert operator.refusals() == []

    helm("uninstall")
    assert node.get("deployment", helm.package.name, namespace=_NAMESPACE) is None
    assert node.get(_KIND, "web", namespace=namespace) is not None, "definitions and objects outlive the release"

    # Helm deletes the role while the Pod ends, so the release of the lease may be refused.
    eventually(lambda: not node.list("pods", namespace=_NAMESPACE), within=120, what="the end of the Pods")
    reinstalled = time.time()
    helm.install()
    operator.wait_available()
    node.patch(_KIND, "web", {"spec": {"size": 2}}, namespace=namespace)
    node.wait(_KIND, "web", lambda one: one["status"].get("readyReplicas") == 2, namespace=namespace, within=60)
    assert operator.errors() == []
    assert operator.refusals(reinstalled) == []
    node.delete(_KIND, "web", namespace=namespace, wait=True)
    helm("uninstall")
