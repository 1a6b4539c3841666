"""The allowed values of a type at a path, for errors about enums."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import inspect

__all__ = ["Unsupported", "unsupported_value"]

_STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_REFUSED: Final = re.compile(r"Invalid (?:enum )?value (?P<value>.+)", re.DOTALL)


class Unsupported(NamedTuple):
    """An unsupported value, and the supported values."""

    value: Any
    supported: tuple[Any, ...]

    def __str__(self) -> str:
        allowed = ", ".join(_quoted(value) for value in self.supported)
        return f"Unsupported value: {_quoted(self.value)}: supported values: {allowed}"


def unsupported_value(kind: Any, message: str, path: str, *, keys: bool = False) -> Unsupported | None:
    """Parse msgspec's message about an enum, a literal or the tag of a union; `None` for other messages.

    Args:
        kind: The type that was decoded.
        message: The message, without its path.
        path: The path in msgspec's notation (`$.spec.items[0].colour`).
        keys: Whether the message is about the keys of a map instead of its values.
    """
    match = _REFUSED.fullmatch(message)
    if match is None:
        return None
    try:
        value = ast.literal_eval(match["value"])
    except (ValueError, SyntaxError):
        return None
    found = [_info(kind)]
    tags: tuple[Any, ...] = ()
    for step in _STEP.finditer(path):
        if step["name"] is not None:
            tags = tuple(t.tag for t in found if isinstance(t, inspect.StructType) and t.tag_field == step["name"])
        found = [below for one in found for part in _below(one, step) for below in _alternatives(part)]
    if keys:
        found = [a for one in found if isinstance(one, inspect.DictType) for a in _alternatives(one.key_type)]
    allowed = dict.fromkeys([*(v for one in found for v in _values(one)), *tags])
    return Unsupported(value, tuple(allowed)) if allowed else None


@lru_cache(maxsize=64)
def _info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _below(kind: inspect.Type, step: re.Match[str]) -> Iterator[inspect.Type]:
    """Yield the types of a field, an item or a value."""
    name = step["name"]
    match kind:
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() if name is not None:
            yield from (f.type for f in kind.fields if f.encode_name == name)
        case inspect.DictType() if name is None:
            yield kind.value_type
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType() if name is None:
            yield kind.item_type
        case inspect.TupleType() if name is None and step["index"].isdigit():
            yield from kind.item_types[int(step["index"]) :][:1]
        case _:
            return


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.UnionType():
            for one in kind.types:
                yield from _alternatives(one)
        case inspect.Metadata():
            yield from _alternatives(kind.type)
        case _:
            yield kind


def _values(kind: inspect.Type) -> Iterator[Any]:
    match kind:
        case inspect.EnumType():
            yield from (member.value for member in kind.cls)
        case inspect.LiteralType():
            yield from kind.values
        case _:
            return


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
