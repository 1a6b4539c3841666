"""SidecarSet in its own image on a real node: its webhooks while Pods are created without a pause."""

import signal
from collections.abc import Iterator

import pytest

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.installation import Installed, installed, package
from tests.node.measurements import Measurements
from tests.node.operator_images import operator_image
from tests.node.pod_creations import SIDECAR_SET, WEBHOOK_SECONDS, Creations, injected_pod

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def operator(
    node: RealNode, tmp_path_factory: pytest.TempPathFactory, measurements: Measurements
) -> Iterator[Installed]:
    image = operator_image("sidecarset")
    node.import_images(image.archive)
    shipped = package("sidecarset", tmp_path_factory.mktemp("sidecarset"), image, "--replicas=2")
    with installed(node, shipped) as found:
        measurements.seconds("SidecarSet, two replicas: apply of install.yaml until available", found.available_after)
        # The webhooks answer when the operator has put its authority into their configurations.
        eventually(lambda: node.apply(SIDECAR_SET), within=60, what="a SidecarSet that its webhooks admit")
        yield found
        node.delete("sidecarsets.apps.kruise.io", "second-container", wait=True)


def test_a_pod_runs_with_its_injected_container(node: RealNode, operator: Installed, namespace: str) -> None:
    node.apply(injected_pod("web"), namespace=namespace)
    pod = node.wait("pod", "web", "Ready", namespace=namespace, within=60)
    assert {status["name"]: status["ready"] for status in pod["status"]["containerStatuses"]} == {
        "main": True,
        "sidecar": True,
    }
    node.wait(
        "sidecarsets.apps.kruise.io",
        "second-container",
        lambda one: one.get("status", {}).get("readyPods") == 1,
        within=60,
    )
    node.delete("pod", "web", namespace=namespace, wait=True)


@pytest.mark.gate
def test_a_rolling_restart_refuses_no_pod(
    node: RealNode, operator: Installed, namespace: str, measurements: Measurements
) -> None:
    before = {pod["metadata"]["uid"] for pod in operator.pods()}
    creations = Creations()
    with creations.running(node, namespace):
        eventually(lambda: creations.injected > 20, within=60, what="injections before the restart")
        node.kubectl("rollout", "restart", f"deployment/{operator.name}", f"--namespace={operator.namespace}")
        eventually(
            lambda: not before & {pod["metadata"]["uid"] for pod in operator.pods()}, within=120, what="new replicas"
        )
        operator.wait_available()
        eventually(
            lambda: len(node.list("pods", namespace=operator.namespace)) == 2, within=120, what="the end of old Pods"
        )
        reached = creations.injected
        eventually(lambda: creations.injected > reached + 20, within=60, what="injections after the restart")
    assert creations.failures == []
    measurements.seconds("SidecarSet: longest creation of a Pod during a rolling restart", creations.longest)


def test_a_rotation_of_the_authority_refuses_no_pod(
    node: RealNode, operator: Installed, namespace: str, measurements: Measurements
) -> None:
    """A rotation takes twice the propagation time, which is shortened to seconds."""
    where = f"--namespace={operator.namespace}"
    node.kubectl("set", "env", f"deployment/{operator.name}", where, "STEERSMAN_WEBHOOK_CERT_SETTLE=4s")
    operator.wait_available()
    (secret,) = (
        one["metadata"]["name"]
        for one in node.list("secrets", namespace=operator.namespace)
        if one["type"] == "kubernetes.io/tls"
    )

    def certificate() -> str:
        found = node.get("secret", secret, namespace=operator.namespace)
        assert found is not None
        return found["data"]["tls.crt"]

    def loaded() -> int:
        return sum(line["event"] == "serving_certificate_loaded" for line in operator.log())

    before, loads = certificate(), loaded()
    creations = Creations()
    with creations.running(node, namespace):
        eventually(lambda: creations.injected > 20, within=60, what="injections before the rotation")
        node.kubectl("annotate", "secret", secret, where, "steersman.dev/rotate-ca=now")
        eventually(lambda: certificate() != before, within=120, what="a certificate of the new authority")
        eventually(lambda: loaded() >= loads + 2, within=60, what="the new certificate in both replicas")
        reached = creations.injected
        eventually(lambda: creations.injected > reached + 50, within=60, what="injections after the rotation")
    assert creations.failures == []
    measurements.seconds("SidecarSet: longest creation of a Pod during a rotation of certificates", creations.longest)


def test_a_replica_that_hangs_costs_at_most_one_timeout(
    node: RealNode, operator: Installed, namespace: str, measurements: Measurements
) -> None:
    """Its readiness probe fails sooner than the time-out, and the API server does not use its connection again."""
    longest = 0.0
    for pod in operator.pods():
        process = str(operator.process(pod).pid)
        name = pod["metadata"]["name"]
        creations = Creations()
        with creations.running(node, namespace):
            eventually(lambda c=creations: c.injected > 20, within=60, what="injections before the stop")
            node.inside("kill", f"-{signal.SIGSTOP.value}", process)
            try:
                node.wait("pod", name, "Ready=False", namespace=operator.namespace, within=60)
                reached = creations.injected
                eventually(lambda c=creations, r=reached: c.injected > r + 20, within=60, what="injections without it")
            finally:
                node.inside("kill", f"-{signal.SIGCONT.value}", process)
            node.wait("pod", name, "Ready", namespace=operator.namespace, within=60)
        assert len(creations.failures) <= 1, creations.failures
        longest = max(longest, creations.longest)
    measurements.seconds("SidecarSet: longest creation of a Pod while a replica hangs", longest, WEBHOOK_SECONDS)


@pytest.mark.gate
def test_the_log_has_no_errors_and_the_api_server_refused_nothing(operator: Installed) -> None:
    """The last test of the module: it checks the effects of all others."""
    operator.check_log()
    assert operator.refusals() == []
