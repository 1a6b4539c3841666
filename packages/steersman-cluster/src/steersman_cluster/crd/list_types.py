"""Duplicates in lists that are sets or maps; one walker per schema, and none where a schema has no such list.

Follows apiextensions' `listtype`: of equal items only the second is named. Embedded resources are checked here too,
since they need the same walk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from steersman_cluster.cel.gotext import go_value
from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.errors import ErrorType, FieldError, field_invalid
from steersman_cluster.objects import Path

__all__ = ["Walk", "compile_lists", "walk_schema"]

Walk: TypeAlias = Callable[[Path, Any, list[FieldError]], None]
"""Appends the errors of a value at a path."""


def compile_lists(schema: Schema) -> Walk | None:
    """The check of all sets and maps below a schema; `None` where there are none."""
    return walk_schema(schema, _visit)


def walk_schema(schema: Schema, visit: Callable[[Schema], Walk | None]) -> Walk | None:  # noqa: C901
    """One closure that runs `visit`'s walkers wherever the schema has them, and goes only where it must."""
    own = visit(schema)
    items, more = schema.get("items"), schema.get("additionalProperties")
    properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
    each = walk_schema(cast(Schema, items), visit) if isinstance(items, Mapping) else None
    rest = walk_schema(cast(Schema, more), visit) if isinstance(more, Mapping) else None
    fields = {name: found for name, node in properties.items() if (found := walk_schema(node, visit)) is not None}
    if own is None and each is None and rest is None and not fields:
        return None

    def walk(path: Path, value: Any, found: list[FieldError]) -> None:
        if own is not None:
            own(path, value, found)
        if isinstance(value, dict):
            values = cast("dict[str, Any]", value)
            for name, child in fields.items():
                if name in values:
                    child(path / name, values[name], found)
            if rest is not None:
                for name, item in values.items():
                    if name not in properties:
                        rest(path.key(name), item, found)
        elif each is not None and isinstance(value, list):
            for index, item in enumerate(cast("list[Any]", value)):
                each(path.at(index), item, found)

    return walk


def _visit(schema: Schema) -> Walk | None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _set
        case "map":
            return _map(tuple(cast("Sequence[str]", schema.get("x-kubernetes-list-map-keys") or ())))
        case _:
            return None


def _identity(value: Any) -> Any:
    """A key that is equal for what Go takes to be equal, and for nothing else."""
    if isinstance(value, dict | list):
        return ("json", json.dumps(value, sort_keys=True))
    return (type(value), value)


def _repeated(keys: Sequence[Any]) -> list[int]:
    seen: dict[Any, int] = {}
    found: list[int] = []
    for index, key in enumerate(keys):
        count = seen.get(key, 0)
        if count == 1:
            found.append(index)
        seen[key] = count + 1
    return found


def _duplicate(path: Path, value: Any) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, path, value, shown=go_value(value))


def _set(path: Path, value: Any, found: list[FieldError]) -> None:
    if not isinstance(value, list):
        return
    values = cast("list[Any]", value)
    if len(values) > 1:
        repeated = _repeated([_identity(item) for item in values])
        found += [_duplicate(path.at(index), values[index]) for index in repeated]


def _map(names: tuple[str, ...]) -> Walk:
    def walk(path: Path, value: Any, found: list[FieldError]) -> None:
        if not isinstance(value, list):
            return
        values = cast("list[Any]", value)
        for index, item in enumerate(values):
            if item is not None and not isinstance(item, dict):
                found.append(field_invalid(path.at(index), item, "must be an object for an array of list-type map"))
                return
        if len(values) <= 1:
            return
        keys = [{name: item[name] for name in names if name in item} if item else {} for item in values]
        repeated = _repeated([_identity(key) for key in keys])
        found += [_duplicate(path.at(index), keys[index]) for index in repeated]

    return walk
