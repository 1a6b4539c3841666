"""Validation rules (`x-kubernetes-validations`) of a structural schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.devcluster.errors import FieldError
from steersman.devcluster.objects import Object

__all__ = ["Rules", "compile_rules"]


class Rules:
    """The compiled rules of one schema."""

    def validate(self, obj: Object, old: Any) -> list[FieldError]:
        """What the rules say of an object; `old` is ABSENT on create."""
        return []


def compile_rules(schema: Mapping[str, Any]) -> Rules | None:
    """`None` where the schema has no rules."""
    return None
