"""What users of ConfigMonitors do and see, on any cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steersman.testing import eventually

PROJECT = Path(__file__).resolve().parent.parent
CRD = PROJECT / "config" / "crd"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def monitor(
    name: str, config: str = "settings", labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    source = {} if "secret" in spec or "configmap" in spec else {"configMap": config}
    return {
        "apiVersion": "magalix.com/v1",
        "kind": "ConfigMonitor",
        "metadata": {"name": name},
        "spec": {**source, "podSelector": labels or {"app": "web"}, **spec},
    }


def deployment(name: str, replicas: int = 2, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return workload("Deployment", name, labels or {"app": name}, replicas=replicas)


def workload(kind: str, name: str, labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "app", "image": "app"}],
                },
            },
            **spec,
        },
    }


class Scenario:
    """A namespace, in words of this operator."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    def apply(self, *what: Any) -> None:
        self.cluster.apply(*what)

    def change(self, name: str, kind: str = "configmap", **data: str) -> None:
        self.cluster.patch(kind, name, {"stringData" if kind == "secret" else "data": data})

    def pods(self, labels: str = "app=web") -> set[str]:
        """Uids of the Pods that are there and stay."""
        found = self.cluster.list("pods", labels=labels)
        return {p["metadata"]["uid"] for p in found if not p["metadata"].get("deletionTimestamp")}

    def running(self, count: int, labels: str = "app=web") -> set[str]:
        """Uids of the Pods, when there are `count` and all run."""

        def ready() -> set[str] | None:
            found = [p for p in self.cluster.list("pods", labels=labels) if not p["metadata"].get("deletionTimestamp")]
            run = [p for p in found if p.get("status", {}).get("phase") == "Running"]
            return {p["metadata"]["uid"] for p in run} if len(run) == len(found) == count else None

        return eventually(ready, within=120, what=f"{count} Pods with {labels} that run")

    def status(self, name: str) -> dict[str, Any]:
        found = self.cluster.get("configmonitor", name) or {}
        return found.get("status") or {}

    def condition(self, name: str, type: str) -> dict[str, Any]:
        return next((c for c in self.status(name).get("conditions", ()) if c["type"] == type), {})

    def watching(self, *names: str) -> None:
        """Wait until ConfigMonitors have observed their sources."""
        for name in names:
            eventually(lambda name=name: self.status(name).get("observedHash"), within=120, what=f"{name} has a hash")

    def replaced(self, before: set[str], labels: str = "app=web", count: int | None = None) -> set[str]:
        """Wait until none of the Pods is there any more and as many others run; returns those."""
        wanted = len(before) if count is None else count

        def new() -> set[str] | None:
            found = self.pods(labels)
            return found if len(found) == wanted and not found & before else None

        eventually(new, within=120, what=f"{wanted} new Pods with {labels}")
        return self.running(wanted, labels)

    def evictions(self, user: str) -> list[str]:
        """Names of the Pods that a user has evicted or deleted, one for each time."""
        calls = self.cluster.audit.calls(user=user, resource="pods", verbs=("create", "delete"))
        return [e.name for e in calls if e.code in (200, 201)]

    def events(self, reason: str) -> list[dict[str, Any]]:
        return [e for e in self.cluster.list("events.events.k8s.io") if e.get("reason") == reason]
