"""The greatest sizes of the values of a schema, for estimates of costs.

A `Decl` says of every part how many elements it can have in a request of the largest size, and how few bytes it needs.
Follows apiserver's `cel/common/schemas.go`, oddities included: changing one changes which rules are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from steersman_cluster.cel.types import escape, with_metadata

__all__ = ["MAX_REQUEST", "Decl", "cardinality_of", "sizes_of"]

MAX_REQUEST: Final = 3 * 1024 * 1024
_TIMES: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""Format to the largest number of characters and the fewest bytes in JSON."""


@dataclass(frozen=True, slots=True)
class Decl:
    """One part of a schema: `most` elements, `least` bytes. Numbers, booleans, objects and keys of maps have none."""

    most: int = 0
    least: int = 2
    element: Decl | None = None
    key: Decl | None = None
    fields: Mapping[str, Decl] = field(default_factory=dict[str, "Decl"])

    def at(self, path: Sequence[str]) -> Decl | None:
        """The part that a path of escaped names, `@items`, `@values` and `@keys` leads to."""
        node: Decl | None = self
        for step in path:
            if node is None:
                return None
            if step in ("@items", "@values"):
                node = node.element
            elif step == "@keys":
                node = node.key
            else:
                node = node.fields.get(step)
        return node


_KEY: Final = Decl()


def cardinality_of(decl: Decl) -> int:
    """Return how often such a value fits into the largest request."""
    return MAX_REQUEST // (decl.least + 1)


def sizes_of(schema: Mapping[str, Any], *, root: bool = False) -> Decl | None:
    """The sizes of a structural schema; `None` where expressions cannot see such values."""
    if schema.get("x-kubernetes-int-or-string") is True:
        longest = schema.get("maxLength")
        return Decl(MAX_REQUEST - 2 if longest is None else max(longest, 0) * 4, 1)
    if root or schema.get("x-kubernetes-embedded-resource") is True:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _list(schema)
        case "object":
            return _object(schema)
        case "string":
            return _string(schema)
        case "boolean":
            return Decl(0, 4)
        case "number" | "integer":
            return Decl(0, 1)
        case _:
            return None


def _list(schema: Mapping[str, Any]) -> Decl | None:
    items = schema.get("items")
    element = sizes_of(cast("Mapping[str, Any]", items)) if items else None
    if element is None:
        return None
    most = schema.get("maxItems")
    return Decl((MAX_REQUEST - 2) // (element.least + 1) if most is None else max(most, 0), 2, element)


def _object(schema: Mapping[str, Any]) -> Decl | None:
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        value = sizes_of(cast("Mapping[str, Any]", more))
        if value is None:
            return None
        most = schema.get("maxProperties")
        return Decl((MAX_REQUEST - 2) // (value.least + 6) if most is None else max(most, 0), 2, value, _KEY)
    required = frozenset(cast("Sequence[str]", schema.get("required") or ()))
    fields: dict[str, Decl] = {}
    least = 2
    for name, node in cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {}).items():
        below = sizes_of(node)
        if below is None:
            continue
        if escaped := escape(name):
            fields[escaped] = below
        if name in required and node.get("default") is None:
            least += len(name.encode()) + below.least + 4
    return Decl(0, least, fields=fields)


def _string(schema: Mapping[str, Any]) -> Decl:
    kind, longest = cast(str, schema.get("format") or ""), schema.get("maxLength")
    if kind in _TIMES:
        return Decl(*_TIMES[kind])
    if kind == "byte":
        return Decl(MAX_REQUEST - 2 if longest is None else max(longest, 0))
    if longest is not None:
        return Decl(max(longest, 0) * 4)
    if words := cast("Sequence[Any]", schema.get("enum") or ()):
        return Decl(max((len(word.encode()) for word in words if isinstance(word, str)), default=0))
    return Decl(MAX_REQUEST - 2)
