"""What users of SidecarSets do and see, on any cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from steersman.testing import eventually

PROJECT = Path(__file__).resolve().parent.parent
CRD = PROJECT / "config" / "crd" / "bases" / "apps.kruise.io_sidecarsets.yaml"
ANNOTATION = "kruise.io/sidecarset-generation"
SETS = "/apis/apps.kruise.io/v1alpha1/sidecarsets"


def container(name: str, image: str = "busybox:1.36", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **fields}


def sidecarset(
    name: str, *containers: dict[str, Any], labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "nginx"} if labels is None else dict(labels)},
            "containers": list(containers) or [container("sidecar1")],
            **spec,
        },
    }


def pod(name: str, labels: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "nginx"} if labels is None else dict(labels), **metadata},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "nginx:1.27"}]},
    }


def names(pod: Mapping[str, Any]) -> list[str]:
    return [c["name"] for c in pod["spec"]["containers"]]


def images(pod: Mapping[str, Any]) -> dict[str, str]:
    return {c["name"]: c["image"] for c in pod["spec"]["containers"]}


def recorded(pod: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(pod["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))


class Scenario:
    """A namespace, and the SidecarSets of a test."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.sets: set[str] = set()

    def make(self, *sets: dict[str, Any]) -> None:
        """Create SidecarSets, and wait until the operator has seen them."""
        for each in sets:
            self.sets.add(each["metadata"]["name"])
            self.cluster.call("POST", SETS, each)
        for each in sets:
            self.settled(each["metadata"]["name"])

    def change(self, name: str, **spec: Any) -> None:
        self.cluster.patch("sidecarset", name, {"spec": spec})

    def settled(self, name: str, check: Callable[[dict[str, Any]], Any] = lambda _: True) -> dict[str, Any]:
        """Wait until the status describes the present spec and `check` likes it."""

        def ask() -> Any:
            found = self.cluster.get("sidecarset", name)
            status = found.get("status") or {}
            described = status.get("observedGeneration") == found["metadata"]["generation"]
            return status if described and check(status) else None

        return eventually(ask, within=180, what=f"status of {name}")

    def counts(self, name: str, matched: int, updated: int, ready: int) -> None:
        want = (matched, updated, ready)
        self.settled(name, lambda s: (s["matchedPods"], s["updatedPods"], s["readyPods"]) == want)

    def create(self, *pods: dict[str, Any], namespace: str = "") -> list[dict[str, Any]]:
        """Create Pods, and return them as the API server did."""
        path = f"/api/v1/namespaces/{namespace or self.cluster.namespace}/pods"
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda one: self.cluster.call("POST", path, one), pods))

    def pods(self) -> list[dict[str, Any]]:
        return [p for p in self.cluster.list("pods") if not p["metadata"].get("deletionTimestamp")]

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.get("pod", name)

    def clean(self) -> None:
        for name in self.sets:
            self.cluster.delete("sidecarset", name)
