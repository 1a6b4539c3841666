"""Typed access to fields of decoded JSON; a field that is missing or null reads as an empty value.

The object, list or string that is returned for a missing field belongs to no object: do not change it.
"""

from __future__ import annotations

from typing import Any, cast

from steersman_cluster.objects import Object

__all__ = ["get_list", "get_object", "get_objects", "get_string", "get_strings"]


def get_object(obj: Object, name: str) -> Object:
    """Return the object in a field; an empty one for a field that is missing or has another type."""
    found: Any = obj.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def get_list(obj: Object, name: str) -> list[Any]:
    """Return the list in a field; an empty one for a field that is missing or has another type."""
    found: Any = obj.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def get_objects(obj: Object, name: str) -> list[Object]:
    """Return the list of objects in a field; an empty one for a field that is missing or has another type."""
    return get_list(obj, name)


def get_strings(obj: Object, name: str) -> list[str]:
    """Return the list of strings in a field; an empty one for a field that is missing or has another type."""
    return get_list(obj, name)


def get_string(obj: Object, name: str) -> str:
    """Return the string in a field; `""` for a field that is missing or has another type."""
    found: Any = obj.get(name)
    return found if isinstance(found, str) else ""
