"""The ServiceAccount and the roles of an operator in tests, as objects to apply.

The rules are those of the shipped manifests, so that a test fails if they do not suffice. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman.manifests.permissions.roles import rbac
from steersman.manifests.permissions.rules import rules_for
from steersman.operator.operator import Operator

__all__ = ["identity", "rules_for"]


def identity(
    operator: Operator, home: str, *, namespaces: Sequence[str] = (), namespace_selector: bool = False
) -> list[dict[str, Any]]:
    """Return ServiceAccount, roles and bindings in the order of their dependencies; the namespace `home` exists.

    Names of cluster-scoped objects contain `home`, too, because several tests may run one operator at the same time.
    """
    found = rbac(operator, namespace=home, namespaces=namespaces, namespace_selector=namespace_selector)
    return [_unique(obj, home) for obj in found if obj["kind"] != "Namespace"]


def _unique(obj: dict[str, Any], home: str) -> dict[str, Any]:
    metadata = obj["metadata"]
    if "namespace" in metadata:
        return obj
    changed = {**obj, "metadata": {**metadata, "name": f"{metadata['name']}-{home}"}}
    if "roleRef" in obj and obj["roleRef"]["kind"] == "ClusterRole":
        changed["roleRef"] = {**obj["roleRef"], "name": f"{obj['roleRef']['name']}-{home}"}
    return changed
