"""Structural types of objects, built-in and custom, and what decoding does by them."""

from steersman_cluster.schema.builtin import builtin, custom, definition, kinds
from steersman_cluster.schema.decode import Decoded, decode, decode_errors, duplicate_fields, loads, strict_errors
from steersman_cluster.schema.types import ANY, ATOMIC_ANY, Type, from_openapi

__all__ = [
    "ANY",
    "ATOMIC_ANY",
    "Decoded",
    "Type",
    "builtin",
    "custom",
    "decode",
    "decode_errors",
    "definition",
    "duplicate_fields",
    "from_openapi",
    "kinds",
    "loads",
    "strict_errors",
]
