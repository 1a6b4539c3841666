"""Objects on the session's cluster: what people do with kubectl, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steersman.testing.cluster import Cluster
from steersman.testing.cluster_http import CallError

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: blue}
"""


def crd(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.tests.steersman.dev"},
        "spec": {
            "group": "tests.steersman.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "shortNames": [plural[:2]]},
            "versions": [version],
        },
    }


def test_a_text_of_several_documents_is_applied_and_answered_in_order(cluster: Cluster) -> None:
    found = cluster.apply(DEPLOYMENT)

    assert [(one["kind"], one["metadata"]["namespace"]) for one in found] == [
        ("Deployment", cluster.namespace),
        ("ConfigMap", cluster.namespace),
    ]


def test_a_deployment_becomes_available_scales_and_goes(cluster: Cluster) -> None:
    cluster.apply(DEPLOYMENT)
    cluster.wait("deploy", "web", "Available")

    scale = cluster.scale("deployments.apps", "web", 3)
    assert scale["spec"]["replicas"] == 3
    cluster.wait("Deployment", "web", lambda web: web["status"].get("readyReplicas") == 3)
    assert len(cluster.list("pods", labels="app=web")) == 3

    cluster.delete("deployment", "web", propagation="Foreground", wait=True)
    assert cluster.get("deployment", "web") is None
    assert cluster.list("po", labels="app=web") == []


def test_a_kind_is_served_as_soon_as_its_definition_is_applied(cluster: Cluster) -> None:
    app = {"apiVersion": "tests.steersman.dev/v1", "kind": "Sample", "metadata": {"name": "one"}, "spec": {"size": 1}}
    found = cluster.apply(app, crd("samples", "Sample"))

    assert [one["kind"] for one in found] == ["Sample", "CustomResourceDefinition"]
    assert cluster.patch("sa.tests.steersman.dev", "one", {"spec": {"size": 2}})["spec"]["size"] == 2
    assert cluster.get("sample", "one") is not None
    cluster.delete("crd", "samples.tests.steersman.dev", wait=True)


def test_a_file_and_a_directory_are_applied(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(DEPLOYMENT)

    assert cluster.apply(tmp_path)[1]["data"] == {"colour": "blue"}
    assert len(cluster.apply(str(tmp_path / "all.yaml"))) == 2


def test_what_is_refused_is_told_in_the_servers_words(cluster: Cluster) -> None:
    with pytest.raises(CallError, match="failed to create typed patch object"):
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}})
    with pytest.raises(CallError, match="doesn't have a resource type 'nonsense'"):
        cluster.get("nonsense", "x")
    assert cluster.get("configmap", "x") is None


def test_every_test_has_a_namespace_of_its_own(cluster: Cluster, namespace: str, control_plane: Cluster) -> None:
    assert cluster is control_plane
    assert cluster.namespace.startswith("test-")
    assert cluster.namespace != namespace


@pytest.mark.cluster(fresh=True, nodes=3)
def test_a_cluster_of_ones_own_has_as_many_nodes_as_asked_for(cluster: Cluster) -> None:
    assert [node["metadata"]["name"] for node in cluster.list("nodes")] == ["node-1", "node-2", "node-3"]
    assert len(cluster.list("namespaces")) == 5


@pytest.mark.realcluster("kube-controller-manager")
def test_the_same_words_work_on_a_real_control_plane(cluster: Cluster) -> None:
    assert type(cluster).__name__ in ("ControlPlane", "ExistingCluster")
    cluster.apply(DEPLOYMENT)
    cluster.wait("deploy", "web", "Available")
    assert cluster.scale("deploy", "web", 1)["spec"]["replicas"] == 1
    cluster.delete("deploy", "web", propagation="Foreground", wait=True)
