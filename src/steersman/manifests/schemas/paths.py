"""Paths of printer columns, the scale subresource and selectable fields, validated against the schema of a kind.

A path may use Python or JSON names; the result is a JSON path with JSON names and a leading dot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from steersman.manifests.errors import Origin
from steersman.manifests.schemas.node import Node

__all__ = ["Found", "PathError", "find"]

_STEP: Final = re.compile(
    r"\.?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|\[(?P<index>-?\d+|\*)\]|\[(?P<filter>\?\(.*?\))\]|\[(?P<q>['\"])(?P<key>.*?)(?P=q)\]"
)
_META: Final = {
    "name": "string", "generateName": "string", "namespace": "string", "uid": "string", "resourceVersion": "string",
    "generation": "integer", "creationTimestamp": "date", "deletionTimestamp": "date",
    "deletionGracePeriodSeconds": "integer", "labels": "map", "annotations": "map", "finalizers": "list",
    "ownerReferences": "list",
}  # fmt: skip


class PathError(ValueError):
    """A path does not exist; the message names the step."""


@dataclass(frozen=True, slots=True)
class Found:
    """The field at a path."""

    path: str
    node: Node | None
    """`None` below a value without schema, and below metadata."""
    type: str
    simple: bool
    """Whether the path has no list index, filter or key."""


def find(root: Node, path: str) -> Found:
    """Follow a path from the root of a kind. Raises `PathError`."""
    node: Node | None = root
    out, at, simple, kind = "", 0, True, "object"
    text = path.strip()
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise PathError(f"path {path!r}: invalid at {text[at:]!r}")
        at = match.end()
        name = match["name"] or match["key"]
        if name is None:
            simple = False
            if node is not None and node.type not in ("array", ""):
                raise PathError(f"path {path!r}: {out or '.'} is not a list")
            node = node.items if node is not None else None
            out += f"[{match['index'] or match['filter']}]"
        elif node is root and name == "metadata":
            return _metadata(path, text[at:])
        else:
            if match["key"]:
                simple = False
            wire, node = _step(node, name, path, out)
            out += f".{wire}" if match["name"] else f"[{match['q']}{wire}{match['q']}]"
        kind = node.type if node is not None else ""
    if not out:
        raise PathError(f"path {path!r} is empty")
    return Found(out, node, _column_type(node, kind), simple)


def _step(node: Node | None, name: str, path: str, out: str) -> tuple[str, Node | None]:
    if node is None:
        return name, None
    if (found := node.child(name)) is not None:
        return found
    if node.values is not None:
        return name, node.values
    if node.preserves:
        return name, None
    where = f"{out[1:]} ({node.origin.owner})" if out else node.origin.owner
    if node.type == "array":
        raise PathError(f'path {path!r}: {where} is a list; select an item, as in [0] or [?(@.type=="Ready")]')
    raise PathError(f"path {path!r}: {where} has no field {name!r}")


def _metadata(path: str, rest: str) -> Found:
    match = re.match(r"\.([A-Za-z_]+)", rest)
    if match is None:
        raise PathError(f"path {path!r}: add a field of metadata")
    head, *words = match[1].split("_")
    name = head + "".join(word.title() for word in words)
    if name not in _META:
        raise PathError(f"path {path!r}: metadata has no field {match[1]!r}")
    kind = _META[name] if not rest[match.end() :] else "string"
    kind = "string" if kind in ("map", "list") else kind
    return Found(f".metadata.{name}{rest[match.end() :]}", None, kind, not rest[match.end() :])


def _column_type(node: Node | None, kind: str) -> str:
    if node is not None and node.keywords.get("format") == "date-time":
        return "date"
    return kind if kind in ("integer", "number", "boolean") else "string"


def node_at(root: Node, tokens: list[str]) -> Origin:
    """Return the origin of the deepest node along the field path of an error (`properties`, `spec`, `items`, …)."""
    node, rest = root, list(tokens)
    while rest:
        step = rest.pop(0)
        below: Node | None = None
        if step == "properties" and rest:
            below = node.properties.get(rest.pop(0))
        elif step == "items":
            below = node.items
        elif step == "additionalProperties":
            below = node.values
        if below is None:
            break
        node = below
    return node.origin
