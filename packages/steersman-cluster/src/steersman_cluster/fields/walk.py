"""Walks over typed values: fields that differ, fields that are present, and a value without some fields.

They follow structured-merge-diff's `typed` package. Values are only read; the results share parts with them.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from steersman_cluster.fields.elements import ElementError, element
from steersman_cluster.fields.sets import EMPTY, MEMBER, FieldSet
from steersman_cluster.objects import Object
from steersman_cluster.schema.types import ANY, ATOMIC_ANY, Type

__all__ = ["Difference", "compare", "owned", "remove"]

Difference: TypeAlias = "tuple[FieldSet | None, FieldSet | None]"
"""(added or modified, removed), as nodes; `None` where there is nothing."""
_SAME: Difference = (None, None)
_MODIFIED: Difference = (MEMBER, None)


def shape(value: Any, type: Type) -> str:
    """Return the way to walk a value of the type: `map`, `list` or `scalar` (including atomic values)."""
    form = type.form
    if form == "any":
        if value.__class__ is dict:
            return "scalar" if type.atomic else "map"
        return "scalar" if value is not None or type.atomic else "map"
    if form == "scalar" or type.atomic:
        return "scalar"
    return form


def child_type(type: Type, key: str) -> Type:
    """The type of a map's entry; unknown fields are owned as one."""
    return type.fields.get(key) or type.element or (ANY if type.form == "any" else ATOMIC_ANY)


def compare(before: Any, after: Any, type: Type) -> Difference:
    """Return the fields that differ between two values. Unequal types of untyped values count as both."""
    if before == after:
        return _SAME
    form, was = shape(after, type), shape(before, type)
    if form != was and type.form == "any":
        return _reshaped(before, after, type)
    if form == "map":
        return _compare_maps(before, after, type)
    if form == "list":
        return _compare_lists(before, after, type)
    return _MODIFIED


def _reshaped(before: Any, after: Any, type: Type) -> Difference:
    changed: FieldSet = {".": MEMBER}
    if isinstance(after, dict):
        changed.update(_everything(after, type))
    gone = _everything(before, type) if isinstance(before, dict) else None
    return changed if len(changed) > 1 else MEMBER, _without_self(gone)


def _without_self(node: FieldSet | None) -> FieldSet | None:
    if not node:
        return None
    return {key: below for key, below in node.items() if key != "."} or None


def _compare_maps(before: Any, after: Any, type: Type) -> Difference:
    if not before and not after:
        return _MODIFIED  # {} and null
    old = cast(Object, before if before.__class__ is dict else EMPTY)
    new = cast(Object, after if after.__class__ is dict else EMPTY)
    return compare_entries(old, new, type, ())


def compare_entries(old: Object, new: Object, type: Type, skip: Any) -> Difference:
    """Return the fields that differ between two maps, except those that `skip` names."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key, value in new.items():
        if key in old:
            was = old[key]
            if was is value or was == value or key in skip:
                continue
            more, less = compare(was, value, child_type(type, key))
            if more is not None:
                changed[f"f:{key}"] = more
            if less is not None:
                removed[f"f:{key}"] = less
        elif key not in skip:
            changed[f"f:{key}"] = _everything(value, child_type(type, key))
    if len(old) > len(new) or not old.keys() <= new.keys():
        for key, value in old.items():
            if key not in new and key not in skip:
                removed[f"f:{key}"] = _everything(value, child_type(type, key))
    return changed or None, removed or None


def _compare_lists(before: Any, after: Any, type: Type) -> Difference:
    if not before and not after:
        return _MODIFIED
    item = type.item
    old, new = _by_element(before, type), _by_element(after, type)
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key, values in new.items():
        was = old.get(key)
        more, less = (_all_of(values, item), None) if was is None else _compare_items(was, values, item)
        if more is not None:
            changed[key] = more
        if less is not None:
            removed[key] = less
    for key, was in old.items():
        if key not in new:
            removed[key] = _all_of(was, item)
    return changed or None, removed or None


def _compare_items(before: list[Any], after: list[Any], type: Type) -> Difference:
    """Compare what a list holds under one element; items that are there twice are owned as one."""
    if len(before) == 1 and len(after) == 1:
        return compare(before[0], after[0], type)
    if len(before) > 1 and len(after) > 1:
        return _SAME if before == after else _MODIFIED
    return (_all_of(after, type), _all_of(before, type))


def _all_of(values: list[Any], type: Type) -> FieldSet:
    return MEMBER if len(values) > 1 else _everything(values[0], type)


def _by_element(items: Any, type: Type) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items or ():
        try:
            key = element(item, type)
        except ElementError:
            continue
        if key in found:
            found[key].append(item)
        else:
            found[key] = [item]
    return found


def _everything(value: Any, type: Type) -> FieldSet:
    """The node of a value that comes or goes as a whole: itself and all that is in it."""
    if not value or value.__class__ not in (dict, list):
        return MEMBER
    form = shape(value, type)
    if form == "scalar":
        return MEMBER
    node: FieldSet = {".": MEMBER}
    if form == "map":
        if value.__class__ is dict:
            for key, entry in cast(Object, value).items():
                node[f"f:{key}"] = _everything(entry, child_type(type, key))
    else:
        item = type.item
        for key, values in _by_element(value, type).items():
            node[key] = _all_of(values, item)
    return node if len(node) > 1 else MEMBER


def owned(value: Any, type: Type) -> FieldSet:
    """The set of fields that an applied object names: its leaves, items, and keys of maps."""
    form = shape(value, type)
    if form == "map" and value.__class__ is dict:
        return _owned_map(cast(Object, value), type)
    if form == "list" and value.__class__ is list:
        return _owned_list(cast("list[Any]", value), type)
    return EMPTY


def _owned_map(value: Object, type: Type) -> FieldSet:
    fields = type.fields
    out: FieldSet = {}
    for key, entry in value.items():
        kind = child_type(type, key)
        if entry is None or entry == {} or shape(entry, kind) == "scalar":
            out[f"f:{key}"] = MEMBER
            continue
        below = owned(entry, kind)
        if key not in fields:
            below = {".": MEMBER, **below} if below else MEMBER
            out[f"f:{key}"] = below
        elif below:
            out[f"f:{key}"] = below
    return out


def _owned_list(value: list[Any], type: Type) -> FieldSet:
    item = type.item
    out: FieldSet = {}
    for key, values in _by_element(value, type).items():
        below = owned(values[0], item) if len(values) == 1 else EMPTY
        out[key] = {".": MEMBER, **below} if below else MEMBER
    return out


def remove(value: Any, fields: FieldSet, type: Type) -> Any:
    """The value without the members of a set; maps and lists that get empty stay as such."""
    if not fields or not value:
        return value
    form = shape(value, type)
    if value.__class__ is dict:
        return _remove_entries(cast(Object, value), fields, type) if form == "map" else {}
    if value.__class__ is list:
        return _remove_items(cast("list[Any]", value), fields, type) if form == "list" else []
    return value


def _remove_entries(value: Object, fields: FieldSet, type: Type) -> Object:
    out: Object = {}
    for key, entry in value.items():
        node = fields.get(f"f:{key}")
        if node is None:
            out[key] = entry
        elif node and "." not in node:
            out[key] = remove(entry, node, child_type(type, key))
    return out


def _remove_items(value: list[Any], fields: FieldSet, type: Type) -> list[Any]:
    out: list[Any] = []
    for item in value:
        node = fields.get(element(item, type))
        if node is None:
            out.append(item)
        elif node and "." not in node:
            out.append(remove(item, node, type.item))
    return out
