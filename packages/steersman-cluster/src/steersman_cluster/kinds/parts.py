"""Typed looks into decoded JSON: a part that is missing reads as empty."""

from __future__ import annotations

from typing import Any

from steersman_cluster.objects import Object

__all__ = ["items", "part", "word"]


def part(obj: Object, name: str) -> Object:
    """The object or map in a field; an empty one that belongs to nobody where there is none."""
    return obj.get(name) or {}


def items(obj: Object, name: str) -> list[Any]:
    """The list in a field; an empty one that belongs to nobody where there is none."""
    return obj.get(name) or []


def word(obj: Object, name: str) -> str:
    """The string in a field, `""` where there is none."""
    return obj.get(name) or ""
