"""Strategic merge patch: a merge patch that knows which lists merge, and by which key.

Follows apimachinery's `strategicpatch`, its directives included: `$patch` (replace, delete, merge), `$retainKeys`,
`$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`. Neither document nor patch is changed.
"""

from __future__ import annotations

from typing import Any, cast

from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.objects import Object
from steersman_cluster.patch.go_format import go_text
from steersman_cluster.patch.json_patch import unprocessable
from steersman_cluster.schema.depth import bounded
from steersman_cluster.schema.scalars import described
from steersman_cluster.schema.types import ANY, Type

__all__ = ["strategic"]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"
_GO_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}


@bounded
def strategic(doc: Object, patch: Any, type: Type) -> Object:
    """The document after the patch, merged by the patch strategies of `type`.

    The answer may hold nulls and unknown fields of the patch, which decoding by the type removes. A malformed patch
    is a 400 with the API server's text.
    """
    if patch is None:
        return doc
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {described(patch)} into Go value of type map[string]interface {{}}")
    return _merge_map(doc, cast(Object, patch), type)


def _merge_map(original: Object, patch: Object, type: Type) -> Object:
    if _DIRECTIVE in patch:
        return _directed(patch)
    out = dict(original)
    if any(key.startswith("$") for key in patch):
        patch = dict(patch)
        _retain_keys(out, patch)
        _order_lists(out, patch, type)
    for key, value in patch.items():
        deleting = key.startswith(_DELETE_FROM)
        if deleting:
            key = _field_of(key, _DELETE_FROM)
        if value is None:
            out.pop(key, None)
            continue
        current = out.get(key)
        if key in out and _kind(current) is _kind(value):
            if isinstance(value, dict):
                field = _child(type, key)
                changes = cast(Object, value)
                out[key] = changes if field.replace else _merge_map(cast(Object, current), changes, field)
                continue
            if isinstance(value, list):
                field = _child(type, key)
                items = cast("list[Any]", value)
                out[key] = (
                    _merge_list(cast("list[Any]", current), items, field, deleting=deleting)
                    if deleting or (field.merge and not field.replace)
                    else items
                )
                continue
        elif deleting:
            continue
        _take(out, key, value)
    return out


def _take(out: Object, key: str, value: Any) -> None:
    """Put a value that meets no counterpart, without its nulls and directives."""
    kept, value = _plain(value)
    if kept:
        out[key] = value
    else:
        out.pop(key, None)


def _plain(value: Any) -> tuple[bool, Any]:
    """Return whether to keep a value, and it without nulls in maps and without values that carry `$patch`."""
    if isinstance(value, dict):
        entries = cast(Object, value)
        if _DIRECTIVE in entries:
            return False, None
        cleaned: Object = {}
        for key, item in entries.items():
            kept, item = (False, None) if item is None else _plain(item)
            if kept:
                cleaned[key] = item
        return True, cleaned
    if isinstance(value, list):
        return True, [item for kept, item in map(_plain, cast("list[Any]", value)) if kept]
    return True, value


def _directed(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise bad_request(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")


def _retain_keys(out: Object, patch: Object) -> None:
    """Apply `$retainKeys`: remove the keys that it does not name; the patch may contain only keys that it names."""
    if _RETAIN not in patch:
        return
    retained: Any = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    names = cast("list[Any]", retained)
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in names:
            raise bad_request("invalid patch format of retainKeys")
    for key in list(out):
        if key not in names:
            del out[key]


def _order_lists(out: Object, patch: Object, type: Type) -> None:
    """Merge and order every list that a `$setElementOrder` names; takes them out of the patch."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = _as_list(patch.pop(directive))
        key = _field_of(directive, _ORDER)
        has_current, has_items = key in out, key in patch
        field = _child(type, key)
        current = _as_list(out[key]) if has_current else []
        items = _as_list(patch[key]) if has_items else []
        merge_key = field.merge_key
        _check_order(items, order, merge_key)
        if not has_current and not has_items:
            continue
        if not has_items:
            merged = current
        elif not has_current:
            merged = cast("list[Any]", _plain(items)[1])
        else:
            merged = _merge_list(current, items, field, deleting=False) if field.merge and not field.replace else items
        _check_elements([current, items])
        mine, others = _partition(merged, order, merge_key)
        out[key] = _interleave(_by(mine, order, merge_key), _by(others, current, merge_key), current, merge_key)
        patch.pop(key, None)


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """The patch's items must come in the order that is asked for, and all be named by it."""
    if not order or not items:
        return
    if merge_key:
        for item in items:
            _as_map(item)
        items = [item for item in items if item.get(_DIRECTIVE) != "delete"]
    position = index = 0
    while position < len(items) and index < len(order):
        item = items[position]
        if isinstance(item, dict) and _DIRECTIVE in item:
            position += 1
            continue
        if _key_of(item, merge_key) == _key_of(order[index], merge_key):
            position += 1
        index += 1
    if position < len(items) and index >= len(order):
        raise bad_request(
            f"The order in patch list:\n{go_text(items)}\n doesn't match {_ORDER} list:\n{go_text(order)}\n"
        )


def _merge_list(current: list[Any], items: list[Any], field: Type, *, deleting: bool) -> list[Any]:
    if not current and not items:
        return current
    if _check_elements([current, items]) is not dict:
        if deleting:
            return [item for item in current if item not in items]
        merged = list(dict.fromkeys([*current, *items]))
        mine, others = _partition(merged, items, "")
        return _interleave(_by(mine, items, ""), _by(others, current, ""), current, "")
    merge_key = field.merge_key
    if not merge_key:
        raise bad_request("cannot merge lists without merge key for struct")
    current, items = _special_items(current, items, merge_key)
    merged = list(current)
    for item in items:
        value = _key_of(item, merge_key)
        for position, candidate in enumerate(merged):
            if candidate.get(merge_key) == value and merge_key in candidate:
                merged[position] = _merge_map(candidate, item, field.item)
                break
        else:
            merged.append(item)
    mine, others = _partition(merged, items, merge_key)
    return _interleave(_by(mine, items, merge_key), _by(others, current, merge_key), current, merge_key)


def _special_items(current: list[Any], items: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the items with `$patch`: delete an item, or replace the list by the patch's other items."""
    plain: list[Any] = []
    replacing = False
    for item in items:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[_DIRECTIVE]:
            case "delete":
                value = _key_of(item, merge_key)
                current = [kept for kept in current if merge_key not in kept or kept[merge_key] != value]
            case "replace":
                replacing = True
            case "merge":
                raise bad_request("merging lists cannot yet be specified in the patch")
            case other:
                raise bad_request(f"unknown patch type: {go_text(other)} in map: {go_text(item)}")
    return (plain, []) if replacing else (current, plain)


def _partition(merged: list[Any], by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The items that `by` names, and the others."""
    named = [_key_of(item, merge_key) for item in by]
    mine: list[Any] = []
    others: list[Any] = []
    for item in merged:
        (mine if _key_of(item, merge_key) in named else others).append(item)
    return mine, others


def _by(items: list[Any], order: list[Any], merge_key: str) -> list[Any]:
    """Items in the order of another list; those it does not name come last."""
    places = _places(order, merge_key)
    return sorted(items, key=lambda item: places.get(_hashable(_key_of(item, merge_key)), len(places)))


def _interleave(patched: list[Any], others: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Order the items: both lists keep their order, and items of the live list keep their position."""
    places = _places(live, merge_key)
    out: list[Any] = []
    left, right = 0, 0
    while left < len(others) and right < len(patched):
        here = places.get(_hashable(_key_of(others[left], merge_key)))
        there = places.get(_hashable(_key_of(patched[right], merge_key)))
        if here is not None and there is not None and here < there:
            out.append(others[left])
            left += 1
        else:
            out.append(patched[right])
            right += 1
    return out + patched[right:] + others[left:]


def _places(items: list[Any], merge_key: str) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_hashable(_key_of(item, merge_key)), place)
    return places


def _hashable(value: Any) -> Any:
    return go_text(value) if isinstance(value, dict | list) else value


def _key_of(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    entries = _as_map(item)
    if merge_key not in entries:
        raise bad_request(f"map: {go_text(entries)} does not contain declared merge key: {merge_key}")
    return entries[merge_key]


def _field_of(key: str, prefix: str) -> str:
    found, slash, field = key.partition("/")
    if not slash or found != prefix:
        what = "primitive list" if prefix == _DELETE_FROM else "setElementOrder list"
        raise bad_request(f"invalid patch format of {what}")
    return field


def _check_elements(lists: list[list[Any]]) -> Any:
    """The one Python type that all elements have."""
    found: Any = None
    for items in lists:
        for item in items:
            kind = _kind(item)
            if found is None:
                found = kind
                if kind is list:
                    raise unprocessable()
            elif kind is not found:
                raise bad_request(f"list element types are not identical: {go_text(lists)}")
    return found


def _child(type: Type, key: str) -> Type:
    """The type of a field; merging into a field that a struct does not have is refused."""
    child = type.child(key)
    if child is not None:
        return child
    if type.name:
        struct = type.name.rpartition(".")[2]
        raise bad_request(f'unable to find api field in struct {struct} for the json field "{key}"')
    return ANY


def _kind(value: Any) -> Any:
    return value.__class__


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _bad_type(list, value)
    return cast("list[Any]", value)


def _as_map(value: Any) -> Object:
    if not isinstance(value, dict):
        raise _bad_type(dict, value)
    return cast(Object, value)


def _bad_type(expected: Any, value: Any) -> APIError:
    actual = "%!s(<nil>)" if value is None else _GO_TYPES.get(value.__class__, "float64")
    return bad_request(f"expected a {_GO_TYPES[expected]}, but received a {actual}")
