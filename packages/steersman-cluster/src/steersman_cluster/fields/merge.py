"""Merging an applied object into the live one, and refusing applied objects that do not fit their type.

Texts and orders are those of structured-merge-diff's `typed` package.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any, cast

from steersman_cluster.fields.elements import ElementError, element, shown
from steersman_cluster.fields.walk import child_type, shape
from steersman_cluster.objects import Object
from steersman_cluster.patch.go_format import go_text
from steersman_cluster.schema.types import Type

__all__ = ["atomic_paths", "merge", "validate"]

_EXPECTED = {"integer": "numeric (int or float)", "number": "numeric (int or float)", "boolean": "boolean"}
_NUMERIC = ("integer", "int32", "int64", "number")
_STRINGS = ("string", "bytes")


def merge(live: Any, applied: Any, type: Type) -> Any:
    """Return the live value merged with the applied one: leaves and atomic values replace, all others merge.

    Nothing is removed. Lists keep the live order unless the applied list has another.
    """
    form = shape(applied, type)
    if form == "map" and isinstance(live, dict) and live:
        return _merge_maps(cast(Object, live), cast(Object, applied), type) if applied else cast(Object, live)
    if form == "list" and isinstance(live, list) and live:
        items = cast("list[Any]", live)
        return _merge_lists(items, cast("list[Any]", applied), type) if applied else items
    return applied


def _merge_maps(live: Object, applied: Object, type: Type) -> Object:
    out = dict(live)
    for key, value in applied.items():
        out[key] = merge(live[key], value, child_type(type, key)) if key in live else value
    return out


def _merge_lists(live: list[Any], applied: list[Any], type: Type) -> list[Any]:
    """Items of the live list where they are, items of the applied list in its order, live ones first at a place."""
    keys = [element(value, type) for value in live]
    theirs = {element(value, type): value for value in applied}
    mine: dict[str, Any] = {}
    for key, value in zip(keys, live, strict=True):
        # Items that the live list holds twice are not merged with, but replaced.
        mine[key] = None if key in mine else value
    merged = {
        key: merge(mine[key], value, type.item) if mine.get(key) is not None else value for key, value in theirs.items()
    }
    return [live[place] if place >= 0 else merged[key] for key, place in _ordered(keys, list(theirs), mine.keys())]


def _ordered(keys: list[str], wanted: list[str], known: Container[str]) -> list[tuple[str, int]]:
    """The order of a merged list: (key, its place in the live list, or -1 for an applied item)."""
    applied = set(wanted)
    shared = iter([key for key in wanted if key in known])
    following = next(shared, None)
    done: set[str] = set()
    out: list[tuple[str, int]] = []
    left = right = 0
    while left < len(keys) or right < len(wanted):
        key = keys[left] if left < len(keys) else None
        if key is not None and right < len(wanted) and key in applied and following not in (None, key):
            # Shared, but another shared item comes first.
            left += 1
        elif key is not None and key not in applied:
            out.append((key, left))
            left += 1
        else:
            if key is not None and (key in done or (right < len(wanted) and key == wanted[right])):
                left += 1
            if right < len(wanted):
                done.add(wanted[right])
                out.append((wanted[right], -1))
                if following == wanted[right]:
                    following = next(shared, None)
                right += 1
    return out


def atomic_paths(value: Any, type: Type, path: str = "") -> list[str]:
    """Return the paths of the maps and lists in a value that are owned and replaced as one."""
    found: list[str] = []
    if isinstance(value, dict) and type.form in ("map", "any"):
        if type.atomic:
            found.append(path)
        for key, item in cast(Object, value).items():
            if (child := type.fields.get(key)) is not None:
                found += atomic_paths(item, child, f"{path}.{key}")
    elif isinstance(value, list) and type.form == "list":
        if type.atomic:
            found.append(path)
        for index, item in enumerate(cast("list[Any]", value)):
            found += atomic_paths(item, type.item, f"{path}[{index}]")
    return found


def validate(value: Any, type: Type) -> str:
    """Return the errors of an applied object as one text; `""` if there are none."""
    errors: list[str] = []
    _validate(value, type, (), errors)
    if len(errors) < 2:
        return errors[0] if errors else ""
    return "\n".join(["errors:", *(f"  {error}" for error in errors)])


def _fail(errors: list[str], path: tuple[str, ...], text: str) -> None:
    errors.append(f"{shown(path)}: {text}" if path else text)


def _validate(value: Any, type: Type, path: tuple[str, ...], errors: list[str]) -> None:
    if value is None:
        return
    match type.form:
        case "map":
            _validate_map(value, type, path, errors)
        case "list":
            _validate_list(value, type, path, errors)
        case "scalar":
            text = _scalar_error(value, type.scalar)
            if text:
                _fail(errors, path, text)
        case _:
            if isinstance(value, dict) and type.fields:
                _validate_map(cast(Any, value), type, path, errors)


def _validate_map(value: Any, type: Type, path: tuple[str, ...], errors: list[str]) -> None:
    if not isinstance(value, dict):
        _fail(errors, path, f"expected map, got &{{{go_text(value)}}}")
        return
    for key, entry in sorted(cast(Object, value).items()):
        here = (*path, f"f:{key}")
        child = type.child(key)
        if child is None:
            _fail(errors, here, "field not declared in schema")
            return
        _validate(entry, child, here, errors)


def _validate_list(value: Any, type: Type, path: tuple[str, ...], errors: list[str]) -> None:
    if not isinstance(value, list):
        _fail(errors, path, f"expected list, got &{{{go_text(value)}}}")
        return
    seen: set[str] = set()
    for index, item in enumerate(cast("list[Any]", value)):
        step = f"i:{index}"
        if not type.atomic:
            try:
                step = element(item, type)
            except ElementError as error:
                _fail(errors, path, f"element {index}: {error}")
                return
            if step in seen:
                _fail(errors, path, f"duplicate entries for key {shown((step,))}")
            seen.add(step)
        _validate(item, type.item, (*path, step), errors)


def _scalar_error(value: Any, scalar: str) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar in _NUMERIC:
        return "" if number else f"expected numeric (int or float), got {_go_type(value)}"
    if scalar in _STRINGS:
        return "" if isinstance(value, str) else f"expected string, got {_go_value(value)}"
    if scalar == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    # Go's schema lets anything be an int-or-string; decoding refuses it.
    if scalar == "int-or-string" or not isinstance(value, dict | list):
        return ""
    return f"expected any scalar, got &{{{go_text(value)}}}"


def _go_type(value: Any) -> str:
    kinds = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", float: "float64"}
    return kinds.get(value.__class__, "int64")


def _go_value(value: Any) -> str:
    """`%#v` of a wrapped value."""
    shown = _go_syntax(value) if isinstance(value, dict | list) else go_text(value)
    return f"&value.valueUnstructured{{Value:{shown}}}"


def _go_syntax(value: Any) -> str:
    if isinstance(value, dict):
        entries = sorted(cast(Object, value).items())
        return f"map[string]interface {{}}{{{', '.join(f'{json.dumps(k)}:{_go_syntax(v)}' for k, v in entries)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, cast('list[Any]', value)))}}}"
    if value is None:
        return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else go_text(value)
