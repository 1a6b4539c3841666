"""Applies the markers of `Annotated[…]` to schemas, if the type of the schema supports them.

Bounds are read by attribute (`ge`, `max_length`, …), which msgspec and annotated-types both use, so that markers of
pydantic fields are supported too.
"""

from __future__ import annotations

from inspect import isfunction
from typing import Any, Final

from steersman.manifests.errors import Problems
from steersman.manifests.schemas.node import Node, copy_of
from steersman.manifests.schemas.rules import one_of_rules, rule_of
from steersman.models import markers as marks
from steersman.models.markers import CEL, AtLeastOneOf, AtMostOneOf, ExactlyOneOf, Flag, Format, ListMap
from steersman.models.patterns import RE2_SYNTAX, patterns_of
from steersman.regex import compile_pattern

__all__ = ["apply_markers"]

_NUMBERS: Final = {"ge": "minimum", "gt": "minimum", "le": "maximum", "lt": "maximum", "multiple_of": "multipleOf"}
_EXCLUSIVE: Final = {"gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_SIZES: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_UNCALLED: Final = tuple(
    made
    for made in (getattr(marks, name) for name in marks.__all__ if name[0].isupper())
    if isinstance(made, type) or isfunction(made)
)
"""Markers that need arguments; one of these without a call in an annotation is an error."""
_SCALARS: Final = ("string", "integer", "number", "boolean")


def apply_markers(node: Node, markers: tuple[Any, ...], base: Any, problems: Problems) -> None:
    """Add the constraints of markers to a node of the type `base`."""
    for marker in markers:
        match marker:
            case Flag():
                _flag(node, marker.name, problems)
            case Format(name=name):
                if node.type not in ("string", "integer", "number"):
                    problems.add(node.origin, f"Format({name!r}) is for strings and numbers")
                node.keywords["format"] = name
            case ListMap(keys=keys):
                _list_map(node, keys, problems)
            case CEL():
                node.rules.append(rule_of(marker, node, problems))
            case ExactlyOneOf() | AtMostOneOf() | AtLeastOneOf():
                node.rules += one_of_rules(marker, node, problems)
            case _ if any(marker is one for one in _UNCALLED):
                problems.add(node.origin, f"{marker.__name__} needs arguments: write {marker.__name__}(…)")
            case _:
                _bounds(node, marker, base, problems)
    if node.keywords.get("x-kubernetes-list-type") == "set":
        _set_of_values(node, problems)


def _flag(node: Node, name: str, problems: Problems) -> None:  # noqa: C901 - a table of flags
    if name == "Nullable":
        node.keywords["nullable"] = True
    elif name == "PreserveUnknown":
        if node.type not in ("object", ""):
            problems.add(node.origin, "PreserveUnknown is for objects and maps")
        node.keywords["x-kubernetes-preserve-unknown-fields"] = True
    elif name == "Immutable":
        node.rules.append({"rule": "self == oldSelf", "message": f"{_called(node)} is immutable"})
    elif name == "Set":
        if node.type != "array":
            problems.add(node.origin, "Set is for lists")
        else:
            node.keywords["x-kubernetes-list-type"] = "set"
    elif name == "Atomic":
        kind = {"array": "list", "object": "map"}.get(node.type)
        if kind is None:
            problems.add(node.origin, "Atomic is for lists, maps and models")
        else:
            node.keywords[f"x-kubernetes-{kind}-type"] = "atomic"
    elif name == "Selectable":
        node.selectable = True
        if node.type not in ("string", "integer", "boolean"):
            problems.add(node.origin, "Selectable is for strings, whole numbers and booleans")


def _called(node: Node) -> str:
    return node.origin.field or "the value"


def _bounds(node: Node, marker: Any, base: Any, problems: Problems) -> None:  # noqa: C901 - one rule per bound
    for name, keyword in _NUMBERS.items():
        bound = getattr(marker, name, None)
        if bound is None:
            continue
        if node.type not in ("integer", "number"):
            problems.add(node.origin, f"{keyword} {bound} is for numbers")
            continue
        whole = isinstance(bound, float) and bound.is_integer() and node.type == "integer"
        node.keywords[keyword] = int(bound) if whole else bound
        if name in _EXCLUSIVE:
            node.keywords[_EXCLUSIVE[name]] = True
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        size = getattr(marker, name, None)
        if size is None:
            continue
        if node.type not in _SIZES:
            problems.add(node.origin, f"{prefix}Length {size} is for strings, lists and maps")
        elif base is bytes:
            node.keywords[f"{prefix}Length"] = -(-size // 3) * 4  # the schema applies to the base64 text
        else:
            node.keywords[f"{prefix}{_SIZES[node.type]}"] = size
    for pattern in patterns_of(marker):
        _pattern(node, pattern, problems)
    for text in (getattr(marker, "description", None), getattr(marker, "title", None)):
        if isinstance(text, str) and text:
            node.keywords.setdefault("description", text)


def _pattern(node: Node, pattern: str, problems: Problems) -> None:
    if node.type != "string":
        problems.add(node.origin, f"Pattern({pattern!r}) is for strings")
        return
    try:
        compile_pattern(pattern)
    except ValueError as problem:
        problems.add(node.origin, f"Pattern({pattern!r}): {problem}; {RE2_SYNTAX}")
        return
    if "pattern" in node.keywords:
        both = node.keywords.setdefault("allOf", [])
        both.append({"pattern": pattern})
        return
    node.keywords["pattern"] = pattern


def _list_map(node: Node, keys: tuple[str, ...], problems: Problems) -> None:
    if node.type != "array" or node.items is None or node.items.type != "object":
        problems.add(node.origin, f"ListMap{keys!r} is for lists of models")
        return
    wire: list[str] = []
    for key in keys:
        found = node.items.child(key)
        if found is None:
            problems.add(node.origin, f"ListMap: {_item(node)} has no field {key!r}")
            continue
        name, child = found
        wire.append(name)
        if child.type not in _SCALARS:
            problems.add(node.origin, f"ListMap: the key {key!r} must be a string, number or boolean")
        if name in node.items.required or "default" in child.keywords:
            continue
        if _is_kubernetes(child):
            node.items = _with_key(node.items, name)
        else:
            problems.add(node.origin, f"ListMap: the key {key!r} of {_item(node)} must be required or have a default")
    node.keywords["x-kubernetes-list-type"] = "map"
    node.keywords["x-kubernetes-list-map-keys"] = wire
    if node.items.keywords.get("nullable"):
        problems.add(node.origin, "ListMap: the items must not be Nullable")


def _item(node: Node) -> str:
    origins = [child.origin.owner for child in node.items.properties.values()] if node.items else []
    return origins[0] if origins else "the item"


def _is_kubernetes(node: Node) -> bool:
    return "steersman" in node.origin.file and "/k8s/" in node.origin.file.replace("\\", "/")


def _with_key(items: Node, name: str) -> Node:
    """Make a list key required that is neither required nor has a default in a built-in type."""
    items = copy_of(items, items.origin)
    items.required = sorted({*items.required, name})
    return items


def _set_of_values(node: Node, problems: Problems) -> None:
    items = node.items
    if items is None or items.type in _SCALARS or items.keywords.get("x-kubernetes-int-or-string"):
        if items is not None and items.keywords.get("nullable"):
            problems.add(node.origin, "Set: the items must not be Nullable")
        return
    if items.type == "object" and items.keywords.get("x-kubernetes-map-type") == "atomic":
        return
    if items.type == "array" and items.keywords.get("x-kubernetes-list-type", "atomic") == "atomic":
        return
    problems.add(node.origin, "Set: the items must be strings, numbers or booleans, or Atomic; use ListMap for models")
