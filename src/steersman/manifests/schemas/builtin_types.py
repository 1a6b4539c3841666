"""Facts about Kubernetes' own types that their classes do not have, for schemas that embed them.

The classes accept all responses of a server, but a schema that embeds one (a Pod template, a Condition) should be as
strict as the API server's own. The facts are generated from its OpenAPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steersman.manifests.schemas.node import Node, copy_of

__all__ = ["add_facts"]

_CONDITION: Final[Mapping[str, dict[str, Any]]] = {
    "type": {
        "maxLength": 316,
        "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    },
    "status": {"enum": ["True", "False", "Unknown"]},
    "reason": {"maxLength": 1024},
    "message": {"maxLength": 32768},
    "observedGeneration": {"minimum": 0},
}
"""The constraints of apimachinery's Go code that OpenAPI does not have. A reason may be empty here."""


def add_facts(node: Node, cls: type, *, in_status: bool) -> None:
    """Add the known constraints of a built-in class to its schema; fields below `status` get no defaults."""
    from steersman.k8s._facts import FACTS  # large, and needed for few kinds only

    module = cls.__module__.rpartition(".")[2]
    if module == "meta" and cls.__name__ == "Condition":
        for name, keywords in _CONDITION.items():
            node.properties[name].keywords |= keywords
        return
    facts = FACTS.get(f"{module}:{cls.__name__}", {})
    if module != "meta":
        node.required = [name for name in facts.get("required", ()) if name in node.properties]
    for place, name in facts.get("formats", {}).items():
        _with(node, place, {"format": name})
    for name, kind in facts.get("lists", {}).items():
        _with(node, name, {"x-kubernetes-list-type": kind})
    if not in_status:
        for name, value in facts.get("defaults", {}).items():
            if not (name in node.properties and "default" in node.properties[name].keywords):
                _with(node, name, {"default": value})
    if facts.get("atomic"):
        node.keywords["x-kubernetes-map-type"] = "atomic"


def _with(node: Node, place: str, keywords: dict[str, Any]) -> None:
    name = place.removesuffix("[]")
    child = node.properties.get(name)
    if child is None:
        return
    if place.endswith("[]"):
        if child.items is None:
            return
        child.items = copy_of(child.items, child.items.origin)
        child = child.items
    child.keywords |= keywords
