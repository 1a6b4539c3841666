"""Tells whether decoded values of a type are deeply immutable, so that readers can share them (C1).

Models freeze their mappings and use tuples. With a field of type `Any`, `dict` or `list`, one reader could change what
another one reads, so the cache decodes such objects for each read.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec
from msgspec import inspect

__all__ = ["is_immutable"]

_MUTABLE = (inspect.AnyType, inspect.ListType, inspect.SetType, inspect.ByteArrayType, inspect.RawType)


@cache
def is_immutable(kind: Any) -> bool:
    """Return whether decoded values of `kind` are deeply immutable; computed once per type."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return False
    return _immutable(inspect.type_info(kind), set())


def _immutable(info: inspect.Type, seen: set[type]) -> bool:
    if isinstance(info, _MUTABLE):
        return False
    if isinstance(info, inspect.Metadata):
        return _immutable(info.type, seen)
    if isinstance(info, inspect.StructType):
        return _immutable_struct(info, seen)
    if isinstance(info, inspect.CollectionType | inspect.VarTupleType):
        return _immutable(cast(Any, info).item_type, seen)
    if isinstance(info, inspect.TupleType):
        return all(_immutable(item, seen) for item in info.item_types)
    if isinstance(info, inspect.UnionType):
        return all(_immutable(member, seen) for member in info.types)
    if isinstance(info, inspect.CustomType):
        return info.cls is not object and not issubclass(info.cls, dict | list | set)
    return not isinstance(info, inspect.DictType | inspect.TypedDictType | inspect.DataclassType)


def _immutable_struct(info: inspect.StructType, seen: set[type]) -> bool:
    if info.cls in seen:
        return True
    seen.add(info.cls)
    if not info.cls.__struct_config__.frozen:
        return False
    frozen_maps: tuple[str, ...] = getattr(info.cls, "__mapping_fields__", ())
    for field in info.fields:
        kind = field.type
        while isinstance(kind, inspect.Metadata):
            kind = kind.type
        members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        for member in members:
            if isinstance(member, inspect.DictType) and field.name in frozen_maps:
                member = member.value_type
            if not _immutable(member, seen):
                return False
    return True
