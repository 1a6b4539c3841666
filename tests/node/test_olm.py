"""Operators from their OLM bundles: OLM installs them, upgrades them by `replaces`, and uninstalls them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.containerd import tag_image
from tests.node.installation import Installed
from tests.node.measurements import Measurements
from tests.node.olm import CSV, SUBSCRIPTION, Catalog, LifecycleManager, subscription
from tests.node.operator_images import operator_image
from tests.node.subjects import SUBJECTS, Subject

pytestmark = [pytest.mark.node, pytest.mark.slow]

_WITHIN = 150.0
"""Seconds until OLM has installed or replaced a version on a busy machine."""


def _namespace(subject: Subject) -> str:
    return f"{subject.project}-by-olm"


@pytest.fixture(scope="module")
def olm(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LifecycleManager]:
    found = LifecycleManager(node, tmp_path_factory.mktemp("olm"))
    yield found
    found.close()


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.project)
def subject(request: pytest.FixtureRequest, node: RealNode) -> Iterator[Subject]:
    found: Subject = request.param
    image = operator_image(found.project)
    node.import_images(image.archive)
    tag_image(node, image.name, image.name.replace(":0.1.0", ":0.2.0"))
    node.create_namespace(_namespace(found))
    yield found
    node.kubectl("delete", "namespace", _namespace(found), "--wait=true", timeout=120)


@pytest.fixture
def catalog(node: RealNode, olm: LifecycleManager, subject: Subject, tmp_path: Path) -> Iterator[Catalog]:
    found = Catalog(node, subject.project, subject.package, tmp_path)
    yield found
    found.close()
    node.kubectl("delete", "crd", *found.definitions("0.1.0"), "--ignore-not-found", timeout=120)


def _containers(node: RealNode, subject: Subject) -> list[str]:
    """Return the containers of a Pod that passes admission and is not stored."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "never-stored", "labels": {"app": "injected", "tier": "web"}},
        "spec": {"containers": [{"name": "main", "image": PAUSE_IMAGE}]},
    }
    created = node.call("POST", f"/api/v1/namespaces/{_namespace(subject)}/pods?dryRun=All", pod)
    return [one["name"] for one in created["spec"]["containers"]]


def _webhooks(node: RealNode, subject: Subject) -> list[str]:
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    selector = f"olm.owner.namespace={_namespace(subject)}"
    return [one["metadata"]["name"] for kind in kinds for one in node.list(kind, labels=selector)]


def test_a_subscription_installs_upgrades_and_uninstalls_the_operator(
    node: RealNode, subject: Subject, catalog: Catalog, measurements: Measurements
) -> None:
    package, namespace = subject.package, _namespace(subject)
    operator = Installed(node, package, namespace, since=time.time())

    def succeeded(version: str) -> None:
        def done(found: dict[str, Any]) -> bool:
            return found.get("status", {}).get("phase") == "Succeeded"

        node.wait(CSV, f"{package}.v{version}", done, namespace=namespace, within=_WITHIN)

    catalog.publish("0.1.0")
    began = time.time()
    node.apply(*subscription(package, namespace))
    succeeded("0.1.0")
    measurements.seconds(f"{subject.title}: Subscription of OLM until the version succeeded", time.time() - began)
    operator.wait_available()
    subject.create(node, namespace)
    subject.wait_observed(node, namespace)
    if subject.injects:
        eventually(
            lambda: _containers(node, subject) == ["main", "sidecar"], within=30, what="a Pod with the container"
        )

    began = time.time()
    catalog.publish("0.2.0", replaces="0.1.0")
    node.wait(CSV, f"{package}.v0.2.0", "created", namespace=namespace, within=_WITHIN)
    succeeded("0.2.0")
    node.wait(CSV, f"{package}.v0.1.0", "deleted", namespace=namespace, within=60)
    measurements.seconds(f"{subject.title}: new catalog of OLM until the version is replaced", time.time() - began)
    operator.wait_available()
    eventually(
        lambda: [one["image"] for pod in operator.pods() for one in pod["spec"]["containers"]],
        until=lambda images: images == [f"docker.io/library/{subject.project}:0.2.0"],
        within=60,
        what="only a Pod of the new version",
    )
    # OLM has replaced the certificate of the webhooks, too, and the kubelet updates the mounted Secret with a delay.
    subject.alter(node, namespace)
    subject.wait_observed(node, namespace)
    if subject.injects:
        assert _containers(node, subject) == ["main", "sidecar"]
    # OLM may roll out once more, with the hash of its newest certificate.
    operator.wait_available()
    operator.check_log()
    assert operator.refusals() == []

    node.delete(SUBSCRIPTION, package, namespace=namespace, wait=True)
    node.delete(CSV, f"{package}.v0.2.0", namespace=namespace, wait=True)
    node.wait("deployment", package, "deleted", namespace=namespace, within=60)
    node.wait("serviceaccount", package, "deleted", namespace=namespace, within=60)
    eventually(lambda: not _webhooks(node, subject), within=60, what="no webhooks of the operator")
    assert node.get(subject.kind, "web", namespace=namespace) is not None, (
        "definitions and objects outlive the operator"
    )
    # No operator is left that could remove its finalizers.
    node.patch(subject.kind, "web", {"metadata": {"finalizers": None}}, namespace=namespace)
    node.delete(subject.kind, "web", namespace=namespace, wait=True)
