"""A schema during its construction: a tree whose nodes know the class and field that they come from.

`render` converts it to the plain dict of a manifest. Children are found by Python or JSON names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steersman.manifests.errors import Origin

__all__ = ["Node", "copy_of", "render"]


@dataclass(slots=True)
class Node:
    """One schema with its keywords and its children."""

    keywords: dict[str, Any]
    origin: Origin
    properties: dict[str, Node] = field(default_factory=dict[str, "Node"])
    names: dict[str, str] = field(default_factory=dict[str, str])
    """JSON names by Python names."""
    required: list[str] = field(default_factory=list[str])
    items: Node | None = None
    values: Node | None = None
    rules: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    described_by_type: str = ""
    """The docstring of the type, for fields without a docstring."""
    selectable: bool = False

    @property
    def type(self) -> str:
        """The type of the schema, or an empty string."""
        return str(self.keywords.get("type", ""))

    @property
    def preserves(self) -> bool:
        """Whether unknown fields are kept."""
        return bool(self.keywords.get("x-kubernetes-preserve-unknown-fields"))

    def child(self, name: str) -> tuple[str, Node] | None:
        """Return the JSON name and schema of a property, by its JSON or Python name."""
        wire = name if name in self.properties else self.names.get(name, name)
        found = self.properties.get(wire)
        return None if found is None else (wire, found)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Yield this node and all nodes below it; `[]` and `{}` stand for items and values."""
        yield path, self
        for name, node in self.properties.items():
            yield from node.walk((*path, name))
        if self.items is not None:
            yield from self.items.walk((*path, "[]"))
        if self.values is not None:
            yield from self.values.walk((*path, "{}"))

    @property
    def has_defaults(self) -> bool:
        """Whether properties of an empty object get defaults."""
        return any("default" in node.keywords for node in self.properties.values())


def copy_of(node: Node, origin: Origin) -> Node:
    """Return a node whose keywords can be changed without changing `node`; children are shared."""
    return Node(
        dict(node.keywords),
        origin,
        node.properties,
        node.names,
        list(node.required),
        node.items,
        node.values,
        list(node.rules),
        node.described_by_type,
        node.selectable,
    )


def render(node: Node, max_description: int | None = None) -> dict[str, Any]:
    """Return the schema as a new dict; descriptions are cut to `max_description` characters, 0 for none."""
    out = dict(node.keywords)
    text = str(out.pop("description", "") or node.described_by_type)
    if short := trimmed(text, max_description):
        out["description"] = short
    if node.properties:
        out["properties"] = {name: render(child, max_description) for name, child in node.properties.items()}
    if node.required:
        out["required"] = list(node.required)
    if node.items is not None:
        out["items"] = render(node.items, max_description)
    if node.values is not None:
        out["additionalProperties"] = render(node.values, max_description)
    if node.rules:
        out["x-kubernetes-validations"] = [dict(rule) for rule in node.rules]
    return out


def trimmed(text: str, limit: int | None) -> str:
    """Return `text`, or its first sentences within `limit` characters; a longer first sentence ends at a word."""
    if limit is None or len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    head = text[:limit]
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", text[: limit + 1])]
    if ends:
        return head[: ends[-1]]
    space = max(head[: limit - 1].rfind(" "), head[: limit - 1].rfind("\n"))
    return f"{head[:space].rstrip()}…" if space > 0 else f"{head[: limit - 1]}…"
