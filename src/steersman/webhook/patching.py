"""From what a handler changed in its typed view to a minimal JSON patch of the raw object (H4).

A typed view knows some fields and writes defaults for others; the raw object has fields that the view has never heard
of, and lacks defaults that nobody set. So the view's change is carried over onto the raw object, member by member, and
the patch is what differs then: fields that the handler did not touch are in no operation.
"""

from __future__ import annotations

from typing import Any, cast

from steersman.models.jsonpatch import JsonPatch, same

__all__ = ["carried_over", "patch_of"]


def patch_of(raw: Any, before: Any, after: Any) -> JsonPatch:
    """The patch of `raw` that says what changed from `before` to `after`, two wire forms of the same view of it."""
    return JsonPatch.diff(raw, carried_over(raw, before, after))


def carried_over(raw: Any, before: Any, after: Any) -> Any:
    """`raw` with the change from `before` to `after`; what the views do not show stays as it is."""
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
        elif name not in raw:  # a default of the view's: written only where the handler changed it
            if not same(before[name], value):
                result[name] = value
        else:
            result[name] = carried_over(raw[name], before[name], value)
    return result


def _items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(raw) != len(before):
        return after  # the view drops items; whoever changes such a list owns it as a whole
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
    """Which item of `before` became `item`: the one of the same name, else the same one, else the one in its place."""
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
