"""The operators of this project, each with one of its objects and a change of this object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steersman.testing.real_node import RealNode
from steersman.testing.real_node.configuration import PAUSE_IMAGE
from steersman.testing.waiting import eventually
from tests.node.server_images import database_image, rocketmq_image

_ADMISSION_SECONDS = 90
"""Seconds until new certificates of webhooks are in the operator's Pods and in the configurations of the webhooks."""


@dataclass(frozen=True)
class Subject:
    """An operator, one of its objects, and a change of this object."""

    title: str
    """The name of the operator in the rows of the measurements."""
    project: str
    """The directory below `operators`, and the name of the image."""
    package: str
    """The name of the Deployment and of the package of OLM."""
    kind: str
    object: dict[str, Any]
    change: dict[str, Any]
    """The changed fields of the object's spec."""
    injects: bool = False
    """Whether the object injects a container into Pods with the label `app: injected`."""
    pods: Callable[[dict[str, Any]], int] | None = None
    """The number of complete Pods according to the object's status; the object has one, and two after the change."""
    server: Callable[[], Path] | None = None
    """The archive of the image of the object's Pods, if it is not the pause image."""

    def create(self, node: RealNode, namespace: str) -> None:
        """Create the object when the webhooks of the operator admit it."""
        eventually(
            lambda: node.apply(self.object, namespace=namespace),
            within=_ADMISSION_SECONDS,
            what="an object that is admitted",
        )

    def alter(self, node: RealNode, namespace: str) -> None:
        """Change the object when the webhooks of the operator admit it."""
        eventually(
            lambda: node.patch(self.kind, "web", {"spec": self.change}, namespace=namespace),
            within=_ADMISSION_SECONDS,
            what="a change that is admitted",
        )

    def wait_observed(self, node: RealNode, namespace: str) -> None:
        """Wait until the operator has observed the newest version of the object."""

        def observed(found: dict[str, Any]) -> bool:
            return found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]

        node.wait(self.kind, "web", observed, namespace=namespace, within=90)

    def wait_complete(self, node: RealNode, namespace: str, pods: int) -> None:
        """Wait until the operator has observed the object, and its Pods are complete if it has any."""
        self.wait_observed(node, namespace)
        count = self.pods
        if count is not None:
            node.wait(
                self.kind,
                "web",
                lambda found: count(found.get("status") or {}) == pods,
                namespace=namespace,
                within=120,
            )


def _object(api: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def _members(status: dict[str, Any]) -> int:
    return len(status.get("quorum", {}).get("members", ())) if status.get("phase") == "Running" else 0


SUBJECTS = (
    Subject(
        "HelloApp",
        "helloapp",
        "demo-operator",
        "helloapps.apps.anupam.com",
        _object("apps.anupam.com/v1", "HelloApp", image=PAUSE_IMAGE, size=1),
        {"size": 2},
        pods=lambda status: status.get("readyReplicas", 0),
    ),
    Subject(
        "ConfigMonitor",
        "configmonitor",
        "configmonitor",
        "configmonitors.magalix.com",
        _object("magalix.com/v1", "ConfigMonitor", configMap="settings", podSelector={"app": "web"}),
        {"configMap": "other-settings"},
    ),
    Subject(
        "SidecarSet",
        "sidecarset",
        "sidecarset",
        "sidecarsets.apps.kruise.io",
        _object(
            "apps.kruise.io/v1alpha1",
            "SidecarSet",
            selector={"matchLabels": {"app": "injected"}},
            containers=[{"name": "sidecar", "image": PAUSE_IMAGE}],
        ),
        {"selector": {"matchLabels": {"app": "injected", "tier": "web"}}},
        injects=True,
    ),
    Subject(
        "MySQLCluster",
        "mysqlcluster",
        "mysqlcluster",
        "mysqlclusters.database.example.com",
        _object("database.example.com/v1alpha1", "MySQLCluster", version="11.8", size=1),
        {"size": 2},
        pods=_members,
        server=lambda: database_image("mariadb", "11.8", "trixie").archive,
    ),
    Subject(
        "RocketMQ",
        "rocketmq",
        "rocketmq",
        "nameservices.rocketmq.daocloud.io",
        _object("rocketmq.daocloud.io/v1", "NameService", nameServiceImage="rocketmq-nameserver:5.5.0", size=1),
        {"size": 2},
        pods=lambda status: len(status.get("nameServers", ())),
        server=lambda: rocketmq_image("nameserver", "5.5.0").archive,
    ),
)
