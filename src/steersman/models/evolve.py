"""`evolve`: changed copies of frozen objects, by paths to nested fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec

from steersman.models.resource import Dynamic

__all__ = ["PathError", "evolve"]

T = TypeVar("T")

_STEP: Final = re.compile(r"\.?(?P<name>[A-Za-z_]\w*)|\[(?P<item>[^\[\]]*)\]")
_INDEX: Final = re.compile(r"\d+")
_MATCH: Final = re.compile(r"(?P<field>[A-Za-z_]\w*)=(?P<value>.*)")


class PathError(ValueError):
    """A path does not fit the object; the message names the path and the step."""


class _Name(NamedTuple):
    """A field of a struct, or an entry of a mapping."""

    name: str

    def __str__(self) -> str:
        return self.name


class _Item(NamedTuple):
    """The text in brackets: an entry of a mapping, or an item of a list by position or by the value of a field."""

    text: str

    def __str__(self) -> str:
        return f"[{self.text}]"


_Step: TypeAlias = _Name | _Item
_Change: TypeAlias = Callable[[Any], Any]


def evolve(obj: T, changes: Mapping[str, object]) -> T:
    """Return a copy of `obj` in which the values at some paths are replaced.

        evolve(deployment, {
            "spec.replicas": 3,
            "spec.template.spec.containers[name=app].image": "registry.example/app:2",
            "metadata.labels[app.kubernetes.io/version]": "2",
        })

    A path has the attribute names of the classes, and the wire names in a `Dynamic` object. Brackets select an entry of
    a mapping by its key, or an item of a list by its position or by the value of one of its fields. A struct on the
    way that is `None` is created with the defaults of its class. `obj` is unchanged; the copy shares all other values.

    Args:
        obj: A model, or a `Dynamic` object.
        changes: The new values by path, in the order in which they are made. `None` removes an entry of a mapping or an
            item of a list. An object for `[field=value]` is appended if no item matches.

    Raises:
        PathError: A path is malformed, names a field that the class does not have, or an item that does not exist.
    """
    result: Any = obj
    for path, value in changes.items():
        steps = _parse(path)
        if isinstance(result, Dynamic):
            result = Dynamic(_at(result.body, steps, value, path))
        else:
            result = _at(result, steps, value, path)
    return result


def _parse(path: str) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None or (position == 0 and path[0] in ".["):
            raise PathError(f"path {path!r}: write names with dots between them, and [key], [0] or [field=value]")
        steps.append(_Name(found["name"]) if found["name"] is not None else _Item(found["item"]))
        position = found.end()
    if not steps:
        raise PathError("the path is empty: name a field, such as 'spec.replicas'")
    return tuple(steps)


def _at(owner: Any, steps: Sequence[_Step], value: object, path: str) -> Any:
    """Return `owner` with `value` at the path `steps`."""
    step, rest = steps[0], steps[1:]
    owner_type = type(owner).__name__

    def change(inner: Any) -> Any:
        return _at(inner, rest, value, path) if rest else value

    if isinstance(owner, msgspec.Struct) and isinstance(step, _Name):
        return _with_field(owner, step.name, change, path, nested=bool(rest))
    if isinstance(owner, Mapping):
        entries = cast("Mapping[str, Any]", owner)
        key = step.name if isinstance(step, _Name) else step.text
        new = change(entries.get(key, {} if rest and isinstance(rest[0], _Name) else None))
        if new is None:
            return {k: v for k, v in entries.items() if k != key}
        return {**entries, key: new}
    if isinstance(owner, list | tuple) and isinstance(step, _Item):
        items = cast("Sequence[Any]", owner)
        changed = _with_item(items, step, change, path, nested=bool(rest))
        return changed if isinstance(items, list) else tuple(changed)
    raise PathError(f"path {path!r}: {step} does not exist in a value of type {owner_type}")


def _with_field(owner: msgspec.Struct, name: str, change: _Change, path: str, *, nested: bool) -> msgspec.Struct:
    if name not in owner.__struct_fields__:
        import difflib  # Only errors need it.

        close = difflib.get_close_matches(name, owner.__struct_fields__, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise PathError(f"path {path!r}: {type(owner).__name__} has no field {name!r}{hint}")
    inner = getattr(owner, name)
    if inner is None and nested:
        inner = _default_of(owner, name, path)
    new = change(inner)
    return msgspec.structs.replace(owner, **{name: _frozen(new)})


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _default_of(owner: msgspec.Struct, name: str, path: str) -> Any:
    """Return an empty value for a field that is `None`."""
    declared = next(f.type for f in msgspec.structs.fields(owner) if f.name == name)
    for kind in _alternatives(declared):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            try:
                return kind()
            except TypeError as missing:
                raise PathError(
                    f"path {path!r}: {name} is None, and {kind.__name__} has required fields ({missing}):"
                    f" set {name} to a whole {kind.__name__}"
                ) from None
    raise PathError(f"path {path!r}: {name} is None: set it to a whole value")


def _alternatives(declared: Any) -> tuple[Any, ...]:
    if get_origin(declared) is Annotated:
        return _alternatives(get_args(declared)[0])
    parts = get_args(declared) if isinstance(declared, _UNION) else ()
    return tuple(kind for part in parts for kind in _alternatives(part)) if parts else (declared,)


_UNION: Final = type(int | None)


def _with_item(items: Sequence[Any], step: _Item, change: _Change, path: str, *, nested: bool) -> list[Any]:
    position = _position(items, step, path)
    if position is None:
        if nested or (new := change(None)) is None:
            raise PathError(f"path {path!r}: no item matches {step}")
        return [*items, new]
    new = change(items[position])
    return [*items[:position], *(() if new is None else (new,)), *items[position + 1 :]]


def _position(items: Sequence[Any], step: _Item, path: str) -> int | None:
    if _INDEX.fullmatch(step.text):
        if (position := int(step.text)) >= len(items):
            raise PathError(f"path {path!r}: {step}: the list has {len(items)} items")
        return position
    if (match := _MATCH.fullmatch(step.text)) is None:
        raise PathError(f"path {path!r}: {step}: select an item of a list by [0] or [field=value]")
    name, value = match["field"], match["value"]
    return next((n for n, item in enumerate(items) if str(_field(item, name)) == value), None)


def _field(item: Any, name: str) -> Any:
    if isinstance(item, Mapping):
        return cast("Mapping[str, Any]", item).get(name)
    return getattr(item, name) if isinstance(item, msgspec.Struct) and name in item.__struct_fields__ else None
