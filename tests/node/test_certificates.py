"""Webhooks and metrics with certificates of cert-manager on a real node: installation and renewal."""

import time
from base64 import b64decode
from collections.abc import Iterator

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.cert_manager import CERTIFICATE, CertManager
from tests.node.helm import Helm
from tests.node.installation import Installed, Package, package
from tests.node.measurements import Measurements
from tests.node.operator_images import operator_image
from tests.node.pod_creations import SIDECAR_SET, Creations

pytestmark = [pytest.mark.node, pytest.mark.slow]

_KIND = "sidecarsets.apps.kruise.io"


@pytest.fixture(scope="module")
def cert_manager(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertManager]:
    found = CertManager(node, tmp_path_factory.mktemp("cert-manager"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def shipped(node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Package:
    image = operator_image("sidecarset")
    node.import_images(image.archive)
    options = ("--replicas=2", "--certificates=cert-manager")
    return package("sidecarset", tmp_path_factory.mktemp("sidecarset"), image, *options)


@pytest.fixture
def operator(node: RealNode, cert_manager: CertManager, shipped: Package) -> Iterator[Installed]:
    """SidecarSet with two replicas, from the kustomize tree."""
    found = Installed(node, shipped.name, shipped.namespace, since=time.time())
    tree = shipped.install.parent / "config" / "default"
    node.kubectl("apply", "--server-side", "-k", str(tree))
    found.wait_available()
    eventually(lambda: node.apply(SIDECAR_SET), within=90, what="a SidecarSet that its webhooks admit")
    yield found
    node.delete(_KIND, SIDECAR_SET["metadata"]["name"], wait=True)
    node.kubectl("delete", "--wait=true", "-k", str(tree), timeout=120)


def _trusted(node: RealNode, authority: bytes) -> bool:
    """Whether the CA bundle of each webhook has the authority; after a renewal cert-manager keeps the old one, too."""
    bundles: list[bytes] = []
    for kind in ("mutating", "validating"):
        configuration = node.get(f"{kind}webhookconfiguration", f"sidecarset-{kind}")
        assert configuration is not None
        bundles += [b64decode(one["clientConfig"].get("caBundle", "")) for one in configuration["webhooks"]]
    return all(authority in bundle for bundle in bundles)


def _loads(operator: Installed) -> dict[str, int]:
    """Return how often each replica has loaded a certificate from its mounted Secret, by the name of the Pod."""
    where = f"--namespace={operator.namespace}"
    names = [pod["metadata"]["name"] for pod in operator.pods()]
    logs = {name: operator.node.kubectl("logs", where, name) for name in names}
    return {name: text.count('"serving_certificate_loaded"') for name, text in logs.items()}


def _wait_loaded(operator: Installed, before: dict[str, int]) -> None:
    """Wait until each replica has loaded a certificate once more."""

    def all_more() -> bool:
        now = _loads(operator)
        return all(now[name] > count for name, count in before.items())

    eventually(all_more, within=150, what="the new certificate in both replicas", shown=lambda: _loads(operator))


def test_renewals_of_certificate_and_authority_refuse_no_pod(
    node: RealNode, cert_manager: CertManager, operator: Installed, namespace: str, measurements: Measurements
) -> None:
    home, authority = operator.namespace, f"{operator.name}-ca"
    secret = f"{operator.name}-webhook-cert"
    first = cert_manager.secret(home, secret)
    assert _trusted(node, first["ca.crt"])
    assert first["ca.crt"] == cert_manager.secret(home, authority)["tls.crt"]

    creations = Creations()
    with creations.running(node, namespace):
        eventually(lambda: creations.injected > 20, within=60, what="injections before the renewals")
        for renewed in ([f"{operator.name}-webhook"], [authority, f"{operator.name}-webhook"]):
            loads = _loads(operator)
            for name in renewed:
                cert_manager.renew(home, name)
            _wait_loaded(operator, loads)
            reached = creations.injected
            eventually(lambda n=reached: creations.injected > n + 50, within=60, what="injections after the renewal")
    assert creations.failures == []
    last = cert_manager.secret(home, secret)
    assert last["tls.crt"] != first["tls.crt"]
    assert last["ca.crt"] != first["ca.crt"]
    eventually(lambda: _trusted(node, last["ca.crt"]), within=30, what="the new authority in the bundles")
    measurements.seconds("SidecarSet: longest creation of a Pod during renewals of cert-manager", creations.longest)
    operator.check_log()
    assert operator.refusals() == []


def test_a_deleted_secret_is_issued_again_and_refuses_no_pod(
    node: RealNode, cert_manager: CertManager, operator: Installed, namespace: str
) -> None:
    secret = f"{operator.name}-webhook-cert"
    before, loads = cert_manager.secret(operator.namespace, secret)["tls.crt"], _loads(operator)
    creations = Creations()
    with creations.running(node, namespace):
        eventually(lambda: creations.injected > 20, within=60, what="injections before the deletion")
        node.delete("secret", secret, namespace=operator.namespace)
        eventually(
            lambda: cert_manager.secret(operator.namespace, secret)["tls.crt"] != before,
            within=90,
            what="a new certificate",
        )
        _wait_loaded(operator, loads)
        reached = creations.injected
        eventually(lambda: creations.injected > reached + 50, within=60, what="injections with the new certificate")
    assert creations.failures == []


def test_a_helm_chart_brings_the_webhooks_up_with_certificates_of_cert_manager(
    node: RealNode, cert_manager: CertManager, shipped: Package, namespace: str
) -> None:
    helm = Helm(node, shipped, "sidecars")
    helm("install", str(shipped.chart), "--create-namespace", "--set", "certManager.enabled=true")
    operator = Installed(node, shipped.name, shipped.namespace)
    operator.wait_available()
    node.wait(CERTIFICATE, f"{shipped.name}-webhook", "Ready", namespace=shipped.namespace, within=60)
    eventually(lambda: node.apply(SIDECAR_SET), within=90, what="a SidecarSet that its webhooks admit")
    assert _trusted(node, cert_manager.secret(shipped.namespace, f"{shipped.name}-ca")["tls.crt"])
    creations = Creations()
    with creations.running(node, namespace):
        eventually(lambda: creations.injected > 20, within=60, what="injections")
    assert creations.failures == []
    operator.check_log()
    node.delete(_KIND, SIDECAR_SET["metadata"]["name"], wait=True)
    helm("uninstall")
    node.kubectl("delete", f"namespace/{shipped.namespace}", timeout=120)
    definition = f"crd/{_KIND}"
    node.kubectl("delete", definition, timeout=120)
