"""The first objects of a cluster: system namespaces, default roles and bindings, priority classes, flow schemas.

`bootstrap.json` is recorded from a fresh kube-apiserver (`make generate`). The API server creates the objects that are
missing when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from steersman_cluster.auth.rbac import GROUP
from steersman_cluster.auth.rules import aggregate
from steersman_cluster.objects import Object, meta, name_of, namespace_of

__all__ = ["GENERATED_METADATA", "BootstrapObject", "objects"]

GENERATED_METADATA = ("uid", "resourceVersion", "creationTimestamp", "selfLink")
"""The metadata that each cluster makes for itself."""

_DATA = Path(__file__).with_name("bootstrap.json")


@dataclass(frozen=True, slots=True)
class BootstrapObject:
    """One object, complete but for its resourceVersion, and where it is stored."""

    group: str
    resource: str
    namespace: str
    name: str
    object: Object


def objects(
    now: str, *, uid: Callable[[], str] = lambda: str(uuid4()), aggregated: bool = True
) -> list[BootstrapObject]:
    """Return new objects in the order in which they are stored.

    Args:
        now: The creation time, RFC 3339 with seconds.
        uid: Returns a new UID.
        aggregated: Whether to fill the rules of `admin`, `edit` and `view`, which the aggregation controller fills on a
            real cluster; otherwise they are `null` until a controller aggregates them.
    """
    found: list[BootstrapObject] = []
    for entry in _recorded():
        head: Object = {"kind": entry["kind"], "apiVersion": _api_version(entry)}
        if aggregated and entry["resource"] == "clusterroles":
            _aggregate(entry["items"], now)
        for item in entry["items"]:
            made: Object = {**head, **item}
            metadata = made["metadata"]
            metadata["uid"] = uid()
            metadata["creationTimestamp"] = now
            for fields in metadata.get("managedFields", ()):
                fields["time"] = now
            found.append(BootstrapObject(entry["group"], entry["resource"], namespace_of(made), name_of(made), made))
    return found


def _recorded() -> list[dict[str, Any]]:
    return json.loads(_DATA.read_bytes())


def _api_version(entry: dict[str, Any]) -> str:
    return f"{entry['group']}/{entry['version']}" if entry["group"] else entry["version"]


def _aggregate(roles: list[Object], now: str) -> None:
    # `edit` gathers `view`, and `admin` gathers both: until nothing changes.
    while True:
        changed = False
        for role in roles:
            if rule := role.get("aggregationRule"):
                rules = aggregate(rule, name_of(role), roles)
                changed |= rules != role.get("rules")
                role["rules"] = rules
        if not changed:
            break
    for role in roles:
        if "aggregationRule" in role:
            meta(role).setdefault("managedFields", []).insert(
                0,
                {
                    "manager": "clusterrole-aggregation-controller",
                    "operation": "Apply",
                    "apiVersion": f"{GROUP}/v1",
                    "time": now,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:rules": {}},
                },
            )
