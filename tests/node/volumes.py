"""Volumes for claims: directories of the node, because the cluster has no provisioner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import NODE_NAME
from tests.node.installation import RESTRICTED
from tests.node.pod_network import PodNetwork

_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def add_volumes(node: RealNode, prefix: str, count: int, *, size: str = "20Gi") -> None:
    """Add local volumes to the default StorageClass; each serves one claim."""
    node.apply(_CLASS, *(_volume(node, f"{prefix}-{number}", size) for number in range(count)))


def remove_volumes(node: RealNode, prefix: str, count: int) -> None:
    """Delete the volumes; their files end with the node."""
    for number in range(count):
        node.delete("persistentvolume", f"{prefix}-{number}")


@contextmanager
def namespace_with_volumes(node: RealNode, name: str, count: int) -> Iterator[PodNetwork]:
    """Use a namespace with the restricted policy for the tests, and volumes; all is deleted at the end.

    Yields:
        Connections to the Pods and Services.
    """
    add_volumes(node, name, count)
    node.create_namespace(name)
    node.kubectl("label", "namespace", name, RESTRICTED)
    with node.test(name), closing(PodNetwork(node)) as network:
        yield network
    node.kubectl("delete", "namespace", name, "--wait=true", timeout=180)
    remove_volumes(node, name, count)


def _volume(node: RealNode, name: str, size: str) -> dict[str, Any]:
    directory = node.at.home / "volumes" / name
    directory.mkdir(parents=True, exist_ok=True)
    is_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": _CLASS["metadata"]["name"],
            "local": {"path": str(directory)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_node]}]}},
        },
    }
