"""Typed steps into decoded JSON that may be incomplete; what is missing or null reads as empty."""

from __future__ import annotations

from typing import Any, cast

from steersman_cluster.objects import Object

__all__ = ["part", "parts", "strings"]


def part(obj: Object, name: str) -> Object:
    """The object in a field."""
    found: Any = obj.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def parts(obj: Object, name: str) -> list[Object]:
    """The list of objects in a field."""
    found: Any = obj.get(name)
    return cast("list[Object]", found) if isinstance(found, list) else []


def strings(obj: Object, name: str) -> list[str]:
    """The list of strings in a field."""
    found: Any = obj.get(name)
    return cast("list[str]", found) if isinstance(found, list) else []
