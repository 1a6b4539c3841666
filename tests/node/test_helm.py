"""Operators from their Helm charts on a real node: install, upgrade, rollback, uninstall, and install again."""

import time
from collections.abc import Iterator

import pytest

from steersman.documents import load_all
from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.helm import Helm
from tests.node.installation import Installed, package
from tests.node.operator_images import operator_image
from tests.node.subjects import SUBJECTS, Subject
from tests.node.volumes import add_volumes, remove_volumes

pytestmark = pytest.mark.node

_VOLUMES = 2


_FASTEST = "helloapp"
_PARAMETERS = [
    pytest.param(subject, id=subject.project, marks=[] if subject.project == _FASTEST else pytest.mark.slow)
    for subject in SUBJECTS
]


def _namespace(subject: Subject) -> str:
    return f"{subject.project}-by-helm"


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
    shipped = package(subject.project, directory, image, "--namespace", _namespace(subject))
    release = Helm(node, shipped, "apps")
    yield release
    # Webhooks that a failed test leaves would refuse the Pods of later tests.
    release("uninstall", "--ignore-not-found")
    node.kubectl("delete", f"namespace/{_namespace(subject)}", "--ignore-not-found", timeout=120)
    for document in load_all(shipped.install.read_text()):
        if document.value["kind"] == "CustomResourceDefinition":
            node.kubectl("delete", f"crd/{document.value['metadata']['name']}", "--ignore-not-found", timeout=120)
    remove_volumes(node, subject.project, _VOLUMES)


def test_a_release_lives_through_upgrade_rollback_and_reinstallation(
    node: RealNode, subject: Subject, helm: Helm, namespace: str
) -> None:
    helm.install()
    operator = Installed(node, helm.package.name, _namespace(subject))
    operator.wait_available()
    subject.create(node, namespace)
    subject.wait_complete(node, namespace, 1)

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
    assert node.get("deployment", helm.package.name, namespace=_namespace(subject)) is None
    assert node.get(subject.kind, "web", namespace=namespace) is not None, "definitions and objects outlive the release"

    # Helm deletes the role while the Pod ends, so the release of the lease may be refused.
    eventually(lambda: not node.list("pods", namespace=_namespace(subject)), within=120, what="the end of the Pods")
    reinstalled = time.time()
    helm.install()
    operator.wait_available()
    subject.alter(node, namespace)
    subject.wait_complete(node, namespace, 2)
    operator.check_log()
    assert operator.refusals(reinstalled) == []
    node.delete(subject.kind, "web", namespace=namespace, wait=True)
    helm("uninstall")
