"""A schema while it is being made: a tree that still knows which class and field every part came from.

`render` turns it into the plain dict of a manifest. Paths (`spec.size`) are looked up here, by Python or wire names.
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
    """One schema: its own keywords, and its children."""

    keywords: dict[str, Any]
    origin: Origin
    properties: dict[str, Node] = field(default_factory=dict[str, "Node"])
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Wire names by Python names."""
    required: list[str] = field(default_factory=list[str])
    items: Node | None = None
    values: Node | None = None
    rules: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    described_by_type: str = ""
    """The docstring of the type, used where a field has none."""
    selectable: bool = False

    @property
    def type(self) -> str:
        return str(self.keywords.get("type", ""))

    @property
    def preserves(self) -> bool:
        return bool(self.keywords.get("x-kubernetes-preserve-unknown-fields"))

    def child(self, name: str) -> tuple[str, Node] | None:
        """The wire name and schema of a property, given its wire or Python name."""
        wire = name if name in self.properties else self.names.get(name, name)
        found = self.properties.get(wire)
        return None if found is None else (wire, found)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """This node and everything below it; `[]` and `{}` stand for items and values."""
        yield path, self
        for name, node in self.properties.items():
            yield from node.walk((*path, name))
        if self.items is not None:
            yield from self.items.walk((*path, "[]"))
        if self.values is not None:
            yield from self.values.walk((*path, "{}"))

    @property
    def has_defaults(self) -> bool:
        """Whether an empty object would be filled in."""
        return any("default" in node.keywords for node in self.properties.values())


def copy_of(node: Node, origin: Origin) -> Node:
    """A node whose own keywords may be changed without changing `node`; children are shared."""
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
    """The schema as a fresh plain dict; descriptions are cut to `max_description` characters, 0 for none."""
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
    """`text`, or its first sentences that fit into `limit` characters; a first sentence too long ends at a word."""
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
