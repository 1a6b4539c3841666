"""What a CustomResourceDefinition must be: names, versions, schemas, columns, conversion."""

from __future__ import annotations

from steersman.devcluster.errors import FieldError
from steersman.devcluster.objects import Object

__all__ = ["validate_definition", "validate_definition_update"]


def validate_definition(obj: Object) -> list[FieldError]:
    """What is wrong with a new definition."""
    return []


def validate_definition_update(obj: Object, old: Object, *, status_only: bool = False) -> list[FieldError]:
    """What is wrong with a changed definition."""
    return []
