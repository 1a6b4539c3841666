"""Records what a fresh kube-apiserver makes for itself into `auth/bootstrap.json`; run it for a new release.

    python tests/cluster/auth/record_bootstrap.py

The data are API objects, without what differs between any two servers. No controller runs while they are recorded.
"""

import json
from pathlib import Path
from typing import Any

import steersman_cluster.auth.bootstrap as room
from steersman.testing.controlplane import ControlPlane

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
    """One entry for each resource: where it is served, and its objects."""
    recorded: list[dict[str, Any]] = []
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
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
    """An object without uid, times and version."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in room.MADE_ANEW}
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
    return {**item, "metadata": metadata}


def main() -> None:
    path = Path(room.__file__).with_name("bootstrap.json")
    lines = []
    for entry in record():
        items = ",\n".join(json.dumps(item, separators=(",", ":")) for item in entry.pop("items"))
        head = json.dumps(entry)[:-1]
        lines.append(f'{head}, "items": [\n{items}\n]}}')
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
