"""Operators from their Helm charts on a real node: install, upgrade, rollback, uninstall, and install again."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steersman.documents import load_all
from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.helm import Helm
from tests.node.installation import Installed, package
from tests.node.operator_images import operator_image
from tests.node.server_images import database_image, rocketmq_image
from tests.node.volumes import add_volumes, remove_volumes

pytestmark = pytest.mark.node

_VOLUMES = 2


@dataclass(frozen=True)
class Subject:
    """An operator, and an object whose Pods grow from one to two."""

    project: str
    kind: str
    object: dict[str, Any]
    pods: Callable[[dict[str, Any]], int]
    """The number of complete Pods according to the object's status."""
    server: Callable[[], Path] | None = None
    """The archive of the image of the object's Pods."""

    @property
    def namespace(self) -> str:
        return f"{self.project}-by-helm"


def _object(api: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": {"size": 1, **spec}}


_SUBJECTS = (
    Subject(
        "helloapp",
        "helloapps.apps.anupam.com",
        _object("apps.anupam.com/v1", "HelloApp", image=PAUSE_IMAGE),
        lambda status: status.get("readyReplicas", 0),
    ),
    Subject(
        "mysqlcluster",
        "mysqlclusters.database.example.com",
        _object("database.example.com/v1alpha1", "MySQLCluster", version="11.8"),
        lambda status: len(status.get("quorum", {}).get("members", ())) if status.get("phase") == "Running" else 0,
        lambda: database_image("mariadb", "11.8", "trixie").archive,
    ),
    Subject(
        "rocketmq",
        "nameservices.rocketmq.daocloud.io",
        _object("rocketmq.daocloud.io/v1", "NameService", nameServiceImage="rocketmq-nameserver:5.5.0"),
        lambda status: len(status.get("nameServers", ())),
        lambda: rocketmq_image("nameserver", "5.5.0").archive,
    ),
)


_PARAMETERS = [
    pytest.param(subject, id=subject.project, marks=[] if subject.server is None else pytest.mark.slow)
    for subject in _SUBJECTS
]


@pytest.fixture(scope="module", params=_PARAMETERS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(scope="module")
def helm(node: RealNode, subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    image = operator_image(subject.project)
    node.import_images(image.archive)
    if subject.server is not None:
        node.import_images(subject.server())
    add_volumes(node, subject.project, _VOLUMES)
    directory = tmp_path_factory.mktemp(subject.project)
    shipped = package(subject.project, directory, image, "--namespace", subject.namespace)
    yield Helm(node, shipped, "apps")
    node.kubectl("delete", f"namespace/{subject.namespace}", "--ignore-not-found", timeout=120)
    for document in load_all(shipped.install.read_text()):
        if document.value["kind"] == "CustomResourceDefinition":
            node.kubectl("delete", f"crd/{document.value['metadata']['name']}", "--ignore-not-found", timeout=120)
    remove_volumes(node, subject.project, _VOLUMES)


def test_a_release_lives_through_upgrade_rollback_and_reinstallation(
    node: RealNode, subject: Subject, helm: Helm, namespace: str
) -> None:
    def has_pods(count: int) -> None:
        def holds(found: dict[str, Any]) -> bool:
            return subject.pods(found.get("status") or {}) == count

        node.wait(subject.kind, "web", holds, namespace=namespace, within=120)

    helm.install()
    operator = Installed(node, helm.package.name, subject.namespace)
    operator.wait_available()
    node.apply(subject.object, namespace=namespace)
    has_pods(1)

    helm("upgrade", str(helm.package.chart), "--set", "replicas=2")
    operator.wait_available()
    assert len(operator.pods()) == 2
    assert helm.status() == ("deployed", 2)

    helm("rollback", "1")
    operator.wait_available()
    assert len(operator.pods()) == 1
    assert helm.status() == ("deployed", 3)
    operator.check_log()
    assert operator.refusals() == []

    helm("uninstall")
    assert node.get("deployment", helm.package.name, namespace=subject.namespace) is None
    assert node.get(subject.kind, "web", namespace=namespace) is not None, "definitions and objects outlive the release"

    # Helm deletes the role while the Pod ends, so the release of the lease may be refused.
    eventually(lambda: not node.list("pods", namespace=subject.namespace), within=120, what="the end of the Pods")
    reinstalled = time.time()
    helm.install()
    operator.wait_available()
    node.patch(subject.kind, "web", {"spec": {"size": 2}}, namespace=namespace)
    has_pods(2)
    operator.check_log()
    assert operator.refusals(reinstalled) == []
    node.delete(subject.kind, "web", namespace=namespace, wait=True)
    helm("uninstall")
