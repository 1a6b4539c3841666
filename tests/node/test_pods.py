"""Pods, Services and logs on a real node."""

import pytest

from steersman.testing.cluster import Cluster
from steersman.testing.real_node.configuration import PAUSE_IMAGE

pytestmark = pytest.mark.node


def test_a_pod_runs_under_the_restricted_policy(cluster: Cluster) -> None:
    cluster.patch(
        "namespace", cluster.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "pause", "image": PAUSE_IMAGE, "securityContext": security}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}})
    pod = cluster.wait("pod", "p", "Ready", within=60)
    assert pod["status"]["containerStatuses"][0]["containerID"].startswith("containerd://")
    cluster.delete("pod", "p", wait=True)


def test_logs_come_from_the_container(cluster: Cluster) -> None:
    assert "CoreDNS" in cluster.kubectl("logs", "--namespace=kube-system", "deployment/coredns")
