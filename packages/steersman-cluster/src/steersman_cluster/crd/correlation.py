"""The old value of a part of an object: by field name in maps, by keys in list maps.

Used by ratcheting and by transition rules. Follows apiserver's `CorrelatedObject`: sets, atomic lists and atomic maps
break the thread, since their parts have no identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

__all__ = ["ABSENT", "correlate_index", "correlate_key"]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final[Any] = _Absent()
"""There was nothing, or nothing that could be found again; `None` is a null."""


def correlate_key(schema: Mapping[str, Any], old: Any, key: str) -> Any:
    """The old value of a map's entry or of an object's field."""
    if not isinstance(old, dict) or schema.get("x-kubernetes-map-type", "granular") == "atomic":
        return ABSENT
    return cast("dict[str, Any]", old).get(key, ABSENT)


def correlate_index(schema: Mapping[str, Any], values: Sequence[Any], old: Any, index: int) -> Any:
    """The old item with the same keys in a list of type `map`."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return ABSENT
    item = values[index]
    if not isinstance(item, dict):
        return ABSENT
    keys = cast("Sequence[str]", schema.get("x-kubernetes-list-map-keys") or ())
    wanted = [cast("dict[str, Any]", item).get(key) for key in keys]
    for other in cast("list[Any]", old):
        if isinstance(other, dict) and [cast("dict[str, Any]", other).get(key) for key in keys] == wanted:
            return cast(Any, other)
    return ABSENT
