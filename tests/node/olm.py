"""The Operator Lifecycle Manager on the node, and a catalog that serves the bundles of one operator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from steersman.documents import load_all
from steersman.testing.controlplane.process import Component
from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.commands import REPOSITORY, run
from tests.node.programs import module_directory, start_program, tool

CSV = "clusterserviceversions.operators.coreos.com"
SUBSCRIPTION = "subscriptions.operators.coreos.com"

_MODULE = ("github.com/operator-framework/operator-lifecycle-manager", "v0.38.0")
_NAMESPACE = "olm"
_CATALOG_PORT = 50051


class LifecycleManager:
    """OLM's two operators, which run as programs on the node."""

    def __init__(self, node: RealNode, directory: Path) -> None:
        self._node = node
        self._definitions = module_directory(*_MODULE) / "deploy" / "chart" / "crds"
        node.kubectl("apply", "--server-side", "-f", str(self._definitions))
        node.create_namespace(_NAMESPACE)
        configuration = {"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}}
        eventually(lambda: node.apply(configuration), within=30, what="the kinds of OLM")
        manager = {"OPERATOR_NAMESPACE": _NAMESPACE, "OPERATOR_NAME": "olm-operator"}
        self._programs = [
            start_program(node, "olm", [tool("olm"), f"--namespace={_NAMESPACE}"], directory, env=manager),
            start_program(node, "olm-catalog", [tool("olm-catalog"), f"--namespace={_NAMESPACE}"], directory),
        ]

    def close(self) -> None:
        """End the operators, and delete their kinds."""
        for program in self._programs:
            program.kill()
        self._node.kubectl("delete", "namespace", _NAMESPACE, "--wait=true", timeout=120)
        self._node.kubectl("delete", "-f", str(self._definitions), timeout=120)


class Catalog:
    """A catalog of the bundles of one operator, which `opm serve` serves on the node."""

    def __init__(self, node: RealNode, project: str, package: str, directory: Path) -> None:
        """Record the operator; the catalog is empty.

        Args:
            node: The cluster.
            project: The directory below `operators`, which is also the name of the image.
            package: The name of the operator, which is the name of the package.
            directory: A directory for bundles and catalogs.
        """
        self._node = node
        self._project = project
        self._package = package
        self._directory = directory
        self._documents: list[dict[str, Any]] = []
        self._server: Component | None = None

    def publish(self, version: str, *, replaces: str = "") -> None:
        """Add the bundle of a version, and serve it in addition to the earlier ones."""
        words = ["bundle", "make", "--output-dir", self._directory / version, "--catalog", self._directory / "catalog"]
        words += ["--version", version, "--image", f"docker.io/library/{self._project}:{version}"]
        words += ["--provider", "Steersman"]
        words += ["--replaces", f"{self._package}.v{replaces}"] if replaces else []
        run(sys.executable, "-m", "steersman", *words, cwd=REPOSITORY / "operators" / self._project)
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

    def definitions(self, version: str) -> list[str]:
        """Return the names of the CustomResourceDefinitions in the bundle of a version."""
        found = [
            document.value
            for path in (self._directory / version / "manifests").glob("*.yaml")
            for document in load_all(path.read_text())
        ]
        return [one["metadata"]["name"] for one in found if one["kind"] == "CustomResourceDefinition"]

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.kill()


def subscription(package: str, namespace: str) -> list[dict[str, Any]]:
    """Return the source of the catalog, and a Subscription for an operator that watches its own namespace."""
    names = {"name": package, "namespace": namespace}
    source = {"sourceType": "grpc", "address": f"127.0.0.1:{_CATALOG_PORT}", "displayName": "Test"}
    return [
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": names,
            "spec": source,
        },
        {
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": names,
            "spec": {"targetNamespaces": [namespace]},
        },
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": names,
            "spec": {"channel": "alpha", "name": package, "source": package, "sourceNamespace": namespace},
        },
    ]


def _identity(document: dict[str, Any]) -> tuple[str, str]:
    return document["schema"], document["name"]
