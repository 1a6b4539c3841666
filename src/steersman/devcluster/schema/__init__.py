"""Structural types of objects, built-in and custom, and what decoding does by them."""

from steersman.devcluster.schema.builtin import builtin, custom, definition, kinds
from steersman.devcluster.schema.types import ANY, ATOMIC_ANY, Type, from_openapi

__all__ = ["ANY", "ATOMIC_ANY", "Type", "builtin", "custom", "definition", "from_openapi", "kinds"]
