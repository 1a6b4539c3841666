"""The identity that an operator runs under in tests: just what it declares, as objects to be applied.

The rules are those of the manifests that are shipped, so that a test fails when these do not suffice. Pure: it talks
to no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman.manifests.rbac import rules_for
from steersman.manifests.roles import rbac
from steersman.operator.operator import Operator

__all__ = ["identity", "rules_for"]


def identity(
    operator: Operator, home: str, *, namespaces: Sequence[str] = (), namespace_selector: bool = False
) -> list[dict[str, Any]]:
    """ServiceAccount, roles and bindings in the order of their dependencies; the namespace `home` is there already.

    Objects of the whole cluster are named after `home` too, since several tests may run one operator at a time.
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
