"""Sets of fields, held in the very form in which they are written: `{"f:spec": {"f:replicas": {}}}`.

A node is a dict from path elements (`f:name`, `k:{...}`, `v:...`, `i:...`) to nodes. An empty node is a member of the
set; a node with children is one only if it also has a `"."`. Sets are never changed once made, and share parts.
Semantics follow structured-merge-diff's `fieldpath`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, TypeAlias, cast

from steersman_cluster.objects import from_json
from steersman_cluster.schema.types import Type

__all__ = [
    "EMPTY",
    "MEMBER",
    "FieldSet",
    "InvalidFieldsError",
    "difference",
    "has_any",
    "intersection",
    "is_subset",
    "parse",
    "paths",
    "recursive_difference",
    "sort",
    "union",
    "with_named",
]

FieldSet: TypeAlias = "dict[str, Any]"
EMPTY: FieldSet = {}
"""The empty set (as a root)."""
MEMBER: FieldSet = {}
"""A leaf that is a member (as a node)."""
_RANK = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


class InvalidFieldsError(ValueError):
    """The value is not a valid set of fields."""


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the union; the left set itself if the right one adds nothing."""
    out = left
    for key, theirs in right.items():
        mine = left.get(key)
        joined = theirs if mine is None else mine if mine is theirs else _union_node(mine, theirs)
        if joined is not mine:
            if out is left:
                out = dict(left)
            out[key] = joined
    return out


def _union_node(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right if not right or "." in right else {".": MEMBER, **right}
    if not right:
        return left if "." in left else {".": MEMBER, **left}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the difference; the left set itself if nothing is removed."""
    out = left
    for key, theirs in right.items():
        mine = left.get(key)
        if mine is None:
            continue
        rest = _difference_node(mine, theirs)
        if rest is not mine:
            if out is left:
                out = dict(left)
            if rest is None:
                del out[key]
            else:
                out[key] = rest
    return out


def _difference_node(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """A node without the members of another; `None` where nothing is left."""
    if not left:
        return left if right and "." not in right else None
    if not right:
        if "." not in left:
            return left
        rest = {key: node for key, node in left.items() if key != "."}
        return rest or None
    rest = difference(left, right)
    if rest is left:
        return left
    if not rest:
        return None
    # A lone "." is a leaf.
    return MEMBER if len(rest) == 1 and "." in rest else rest


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the left set without the members of the right one and the fields below them."""
    out = left
    for key, theirs in right.items():
        mine = left.get(key)
        if mine is None:
            continue
        if not theirs or "." in theirs:
            rest = None
        elif not mine:
            continue
        else:
            rest = recursive_difference(mine, theirs)
            rest = (MEMBER if len(rest) == 1 and "." in rest else rest) if rest else None
        if rest is not mine:
            if out is left:
                out = dict(left)
            if rest is None:
                del out[key]
            else:
                out[key] = rest
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the intersection."""
    out: FieldSet = {}
    for key, mine in left.items():
        theirs = right.get(key)
        if theirs is None:
            continue
        if key == ".":
            out[key] = MEMBER
        elif not mine or not theirs:
            if (not mine or "." in mine) and (not theirs or "." in theirs):
                out[key] = MEMBER
        else:
            both = intersection(mine, theirs)
            if both:
                out[key] = MEMBER if len(both) == 1 and "." in both else both
    return out


def has_any(left: FieldSet, right: FieldSet) -> bool:
    """Return whether any member of the right set is in the left."""
    for key, theirs in right.items():
        mine = left.get(key)
        if mine is None:
            continue
        if key == ".":
            return True
        if not mine or not theirs:
            if (not mine or "." in mine) and (not theirs or "." in theirs):
                return True
        elif has_any(mine, theirs):
            return True
    return False


def is_subset(left: FieldSet, right: FieldSet) -> bool:
    """Return whether the right set has all members of the left."""
    for key, mine in left.items():
        theirs = right.get(key)
        if theirs is None:
            return False
        if key == ".":
            continue
        if not mine:
            if theirs and "." not in theirs:
                return False
        elif not theirs or not is_subset(mine, theirs):
            return False
    return True


def with_named(fields: FieldSet, type: Type | None) -> FieldSet:
    """The set with every declared struct field that has members below it as a member, too."""
    out: FieldSet = {}
    for key, node in fields.items():
        if key == "." or not node:
            out[key] = node
            continue
        child: Type | None = None
        declared = False
        if type is not None:
            if key[0] == "f":
                declared = key[2:] in type.fields
                child = type.child(key[2:]) if type.form != "list" else None
            else:
                child = type.item
        below = with_named(node, child)
        if declared and "." not in below:
            below = {".": MEMBER, **below}
        out[key] = below
    return out


def paths(fields: FieldSet) -> list[tuple[str, ...]]:
    """Return all members as tuples of path elements, in the API server's order: shallow members first."""
    found: list[tuple[str, ...]] = []
    _paths(fields, (), found)
    return found


def _paths(fields: FieldSet, prefix: tuple[str, ...], found: list[tuple[str, ...]]) -> None:
    keys = sorted((key for key in fields if key != "."), key=_order)
    found.extend((*prefix, key) for key in keys if not fields[key] or "." in fields[key])
    for key in keys:
        if fields[key]:
            _paths(fields[key], (*prefix, key), found)


def sort(fields: FieldSet) -> FieldSet:
    """The same set with its elements in the order in which the API server writes them."""
    if not fields:
        return fields
    keys = fields if len(fields) == 1 else sorted(fields, key=_order)
    return {key: sort(fields[key]) for key in keys}


@lru_cache(maxsize=4096)
def _order(element: str) -> Any:
    """Fields before keys before values before indices; numbers by value."""
    rank = _RANK[element[0]]
    if rank < 2:
        return rank, element, ()
    if rank == 2:
        fields = cast("dict[str, Any]", from_json(element[2:]))
        return rank, "", tuple((name, _value_order(fields[name])) for name in sorted(fields))
    return rank, "", (_value_order(from_json(element[2:])),)


def _value_order(value: Any) -> Any:
    """Numbers, then strings, then booleans, then null, as structured-merge-diff compares values."""
    if isinstance(value, bool):
        return 2, 0, "", value
    if isinstance(value, int | float):
        return 0, value, "", False
    if isinstance(value, str):
        return 1, 0, value, False
    return 3, 0, json.dumps(value), False


def parse(raw: Any) -> FieldSet:
    """Read the `fieldsV1` of an entry, in canonical form; raises `InvalidFieldsError`."""
    if raw is None:
        return EMPTY
    if not isinstance(raw, dict):
        raise InvalidFieldsError("fieldsV1 is no object")
    out: FieldSet = {}
    for key, node in cast("dict[str, Any]", raw).items():
        if key == ".":
            if node != {}:
                raise InvalidFieldsError("expected an empty object after '.'")
            out[key] = MEMBER
            continue
        if len(key) < 2 or key[1] != ":":
            raise InvalidFieldsError("key must be 2 characters long:")
        below = parse(node)
        out[_element(key)] = MEMBER if len(below) == 1 and "." in below else below
    return out


def _element(key: str) -> str:
    match key[0]:
        case "f":
            return key
        case "k" | "v" | "i":
            try:
                value = from_json(key[2:])
            except ValueError as error:
                raise InvalidFieldsError(f"{key}: {error}") from None
            if key[0] == "k":
                if not isinstance(value, dict):
                    raise InvalidFieldsError(f"{key}: expected an object")
                keys = cast("dict[str, Any]", value)
                value = {name: keys[name] for name in sorted(keys)}
            elif key[0] == "i" and (not isinstance(value, int) or isinstance(value, bool)):
                raise InvalidFieldsError(f"{key}: expected an index")
            return f"{key[:2]}{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}"
        case _:
            raise InvalidFieldsError(f"unknown path element {key}")
