"""HelloApp from its OLM bundle: OLM installs it, upgrades it by `replaces`, and uninstalls it."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.documents import load_all
from steersman.testing.controlplane_process import Component
from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.base_image import REPOSITORY, run
from tests.node.installation import Installed
from tests.node.measurements import Measurements
from tests.node.operator_images import operator_image
from tests.node.programs import module_directory, start_program, tool

pytestmark = [pytest.mark.node, pytest.mark.slow]

_MODULE = ("github.com/operator-framework/operator-lifecycle-manager", "v0.38.0")
_NAMESPACE = "olm"
_HOME = "helloapp-by-olm"
_PACKAGE = "demo-operator"
_KIND = "helloapps.apps.anupam.com"
_CSV = "clusterserviceversions.operators.coreos.com"
_CATALOG_PORT = 50051


class Catalog:
    """A catalog of HelloApp's bundles, which `opm serve` serves on the node."""

    def __init__(self, node: RealNode, directory: Path) -> None:
        self._node = node
        self._directory = directory
        self._documents: list[dict[str, Any]] = []
        self._server: Component | None = None

    def publish(self, version: str, *, replaces: str = "") -> None:
        """Add the bundle of a version, and serve it in addition to the earlier ones."""
        words = ["bundle", "make", "--output-dir", self._directory / version, "--catalog", self._directory / "catalog"]
        words += ["--version", version, "--image", f"docker.io/library/helloapp:{version}", "--provider", "Steersman"]
        words += ["--replaces", f"{_PACKAGE}.v{replaces}"] if replaces else []
        run(sys.executable, "-m", "steersman", *words, cwd=REPOSITORY / "operators" / "helloapp")
        text = (self._directory / "catalog" / "catalog.yaml").read_text()
        for document in (one.value for one in load_all(text)):
            # Without an image of the bundle, OLM takes the objects in the catalog instead of unpacking the image.
            if document["schema"] == "olm.bundle":
                del document["image"]
            same = [one for one in self._documents if _identity(one) == _identity(document)]
            if not same:
                self._documents.append(document)
            elif document["schema"] == "olm.channel":
                same[0]["entries"] += document["entries"]
        served = self._directory / f"served-{version}"
        served.mkdir()
        (served / "catalog.json").write_text("\n".join(json.dumps(one) for one in self._documents))
        self.close()
        options = [f"--port={_CATALOG_PORT}", f"--cache-dir={self._directory / f'cache-{version}'}"]
        options += ["--cache-enforce-integrity=false", f"--termination-log={self._directory / 'termination'}"]
        self._server = start_program(self._node, "opm", [tool("opm"), "serve", served, *options], self._directory)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.kill()


def _identity(document: dict[str, Any]) -> tuple[str, str]:
    return document["schema"], document["name"]


@pytest.fixture(scope="module")
def catalog(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """The Operator Lifecycle Manager, and an empty catalog."""
    directory = tmp_path_factory.mktemp("olm")
    definitions = module_directory(*_MODULE) / "deploy" / "chart" / "crds"
    node.kubectl("apply", "--server-side", "-f", str(definitions))
    for namespace in (_NAMESPACE, _HOME):
        node.create_namespace(namespace)
    configuration = {"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}}
    eventually(lambda: node.apply(configuration), within=30, what="the kinds of OLM")
    manager = {"OPERATOR_NAMESPACE": _NAMESPACE, "OPERATOR_NAME": "olm-operator"}
    programs = [
        start_program(node, "olm", [tool("olm"), f"--namespace={_NAMESPACE}"], directory, env=manager),
        start_program(node, "olm-catalog", [tool("olm-catalog"), f"--namespace={_NAMESPACE}"], directory),
    ]
    found = Catalog(node, directory)
    yield found
    found.close()
    node.kubectl("delete", "namespace", _HOME, "--wait=true", timeout=120)
    for program in programs:
        program.kill()
    node.kubectl("delete", "namespace", _NAMESPACE, "--wait=true", timeout=120)
    node.kubectl("delete", "-f", str(definitions), timeout=120)
    node.kubectl("delete", "crd", _KIND, "--ignore-not-found", timeout=120)


def _subscription() -> list[dict[str, Any]]:
    source = {"sourceType": "grpc", "address": f"127.0.0.1:{_CATALOG_PORT}", "displayName": "Test"}
    names = {"name": _PACKAGE, "namespace": _HOME}
    return [
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": {"name": "catalog", "namespace": _NAMESPACE},
            "spec": source,
        },
        {
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": names,
            "spec": {"targetNamespaces": [_HOME]},
        },
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": names,
            "spec": {"channel": "alpha", "name": _PACKAGE, "source": "catalog", "sourceNamespace": _NAMESPACE},
        },
    ]


def test_a_subscription_installs_upgrades_and_uninstalls_the_operator(
    node: RealNode, catalog: Catalog, tmp_path: Path, measurements: Measurements
) -> None:
    image = operator_image("helloapp")
    node.import_images(image.archive)
    containerd = ["ctr", f"--address={node.at.runtime_socket}", "--namespace=k8s.io"]
    node.inside(*containerd, "images", "tag", image.name, image.name.replace(":0.1.0", ":0.2.0"))
    operator = Installed(node, _PACKAGE, _HOME, since=time.time())

    def succeeded(version: str) -> None:
        done = f"{_PACKAGE}.v{version}"
        node.wait(_CSV, done, lambda one: one.get("status", {}).get("phase") == "Succeeded", namespace=_HOME, within=90)

    catalog.publish("0.1.0")
    began = time.time()
    node.apply(*_subscription())
    succeeded("0.1.0")
    measurements.seconds("HelloApp: Subscription of OLM until the version succeeded", time.time() - began)
    operator.wait_available()
    spec = {"image": PAUSE_IMAGE, "size": 1}
    app = {"apiVersion": "apps.anupam.com/v1", "kind": "HelloApp", "metadata": {"name": "web"}, "spec": spec}
    node.apply(app, namespace=_HOME)
    node.wait(_KIND, "web", "Ready", namespace=_HOME, within=60)

    began = time.time()
    catalog.publish("0.2.0", replaces="0.1.0")
    node.wait(_CSV, f"{_PACKAGE}.v0.2.0", "created", namespace=_HOME, within=120)
    succeeded("0.2.0")
    node.wait(_CSV, f"{_PACKAGE}.v0.1.0", "deleted", namespace=_HOME, within=60)
    measurements.seconds("HelloApp: new catalog of OLM until the version is replaced", time.time() - began)
    operator.wait_available()
    (pod,) = operator.pods()
    assert [one["image"] for one in pod["spec"]["containers"]] == ["docker.io/library/helloapp:0.2.0"]
    node.patch(_KIND, "web", {"spec": {"size": 2}}, namespace=_HOME)
    node.wait(_KIND, "web", lambda one: one["status"].get("readyReplicas") == 2, namespace=_HOME, within=60)
    operator.check_log()
    assert operator.refusals() == []

    node.delete("subscriptions.operators.coreos.com", _PACKAGE, namespace=_HOME, wait=True)
    node.delete(_CSV, f"{_PACKAGE}.v0.2.0", namespace=_HOME, wait=True)
    node.wait("deployment", _PACKAGE, "deleted", namespace=_HOME, within=60)
    node.wait("serviceaccount", _PACKAGE, "deleted", namespace=_HOME, within=60)
    assert node.get(_KIND, "web", namespace=_HOME) is not None, "definitions and objects outlive the operator"
