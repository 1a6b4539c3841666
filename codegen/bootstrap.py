"""Records the objects that a fresh kube-apiserver creates for itself: namespaces, roles, priority levels.

No controller runs while they are recorded. Fields that differ between any two servers are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from codegen.sources import CLUSTER, SourceMissingError
from steersman.testing.controlplane.control_plane import ControlPlane, available
from steersman.version import KUBERNETES_VERSION
from steersman_cluster.auth.bootstrap import GENERATED_METADATA

__all__ = ["generate", "plain", "record"]

TARGET: Final = CLUSTER / "auth" / "bootstrap.json"
TRANSITION_TIME: Final = "2026-01-01T00:00:00Z"
"""The `lastTransitionTime` of all recorded conditions, so that a second recording yields the same bytes."""

RBAC = "rbac.authorization.k8s.io"
FLOW = "flowcontrol.apiserver.k8s.io"
RESOURCES = (
    ("", "v1", "namespaces"),
    (RBAC, "v1", "clusterroles"),
    (RBAC, "v1", "clusterrolebindings"),
    (RBAC, "v1", "roles"),
    (RBAC, "v1", "rolebindings"),
    ("scheduling.k8s.io", "v1", "priorityclasses"),
    (FLOW, "v1", "prioritylevelconfigurations"),
    (FLOW, "v1", "flowschemas"),
)


def record() -> list[dict[str, Any]]:
    """Return one entry for each resource: its path and its objects.

    Raises:
        SourceMissingError: There is no kube-apiserver, or it is of another release.
    """
    if (reason := available()) is not None:
        raise SourceMissingError(str(reason))
    recorded: list[dict[str, Any]] = []
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        if (release := plane.call("GET", "/version")["gitVersion"]) != f"v{KUBERNETES_VERSION}":
            raise SourceMissingError(f"the kube-apiserver is {release}, not v{KUBERNETES_VERSION}: make controlplane")
        for group, version, resource in RESOURCES:
            path = f"/apis/{group}/{version}/{resource}" if group else f"/api/{version}/{resource}"
            answer = plane.call("GET", path)
            recorded.append(
                {
                    "group": group,
                    "version": version,
                    "resource": resource,
                    "kind": answer["kind"].removesuffix("List"),
                    "items": [plain(item) for item in answer["items"]],
                }
            )
    return recorded


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its uid, resourceVersion and times."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in GENERATED_METADATA}
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
    conditions = item.get("status", {}).get("conditions", ())
    for condition in conditions:
        condition["lastTransitionTime"] = TRANSITION_TIME
    return {**item, "metadata": metadata}


def generate() -> dict[Path, bytes]:
    """Return the recorded objects, by path."""
    lines: list[str] = []
    for entry in record():
        items = ",\n".join(json.dumps(item, separators=(",", ":")) for item in entry.pop("items"))
        head = json.dumps(entry)[:-1]
        lines.append(f'{head}, "items": [\n{items}\n]}}')
    return {TARGET: ("[\n" + ",\n".join(lines) + "\n]\n").encode()}
