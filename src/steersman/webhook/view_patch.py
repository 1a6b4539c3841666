"""Computes the JSON patch of a raw object from a handler's changes of its typed view (rule H4).

A typed view has some of the object's fields and writes defaults for missing ones; the raw object has more fields and
fewer defaults. The changes of the view are transferred to the raw object, and the patch is the difference. Fields that
the handler did not change are in no operation.
"""

from __future__ import annotations

from typing import Any, cast

from steersman.models.jsonpatch import JsonPatch, same

__all__ = ["carried_over", "patch_of"]


def patch_of(raw: Any, before: Any, after: Any) -> JsonPatch:
    """Return the patch of `raw` for a change from `before` to `after`, which are views of it as JSON values."""
    return JsonPatch.diff(raw, carried_over(raw, before, after))


def carried_over(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the change from `before` to `after`; fields that the views do not have stay unchanged."""
    if same(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _members(cast("dict[str, Any]", raw), cast("dict[str, Any]", before), cast("dict[str, Any]", after))
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list):
        return _items(cast("list[Any]", raw), cast("list[Any]", before), cast("list[Any]", after))
    return after


def _members(raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    result = {name: value for name, value in raw.items() if name not in before or name in after}
    for name, value in after.items():
        if name not in before:
            result[name] = value
        elif name not in raw:  # a default of the view, written only if the handler changed it
            if not same(before[name], value):
                result[name] = value
        else:
            result[name] = carried_over(raw[name], before[name], value)
    return result


def _items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(raw) != len(before):
        return after  # the view omits items, so a changed list is replaced as a whole
    taken: set[int] = set()
    result: list[Any] = []
    for position, item in enumerate(after):
        origin = _origin(item, position, before, taken)
        if origin is None:
            result.append(item)
        else:
            taken.add(origin)
            result.append(carried_over(raw[origin], before[origin], item))
    return result


def _origin(item: Any, position: int, before: list[Any], taken: set[int]) -> int | None:
    """Return the index of the item of `before` that became `item`: by name, by equality, or by position."""
    name = _name(item)
    if name is not None:
        return next((i for i, b in enumerate(before) if i not in taken and _name(b) == name), None)
    if position < len(before) and position not in taken and same(before[position], item):
        return position
    found = next((i for i, b in enumerate(before) if i not in taken and same(b, item)), None)
    if found is not None:
        return found
    in_place = position < len(before) and position not in taken and _name(before[position]) is None
    return position if in_place and isinstance(item, dict) else None


def _name(item: Any) -> str | None:
    name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None
