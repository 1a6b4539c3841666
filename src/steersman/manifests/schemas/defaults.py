"""Converts defaults of Python fields to defaults of the schema, and decides which fields are required.

A field without default is required. `None` and empty collections only make a field optional; other defaults become
defaults of the schema. Fields below `status` get no defaults, because new objects must not have a status that no
controller has set. Each default is validated against its schema.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from steersman.manifests.errors import Problems
from steersman.manifests.schemas.fields import MISSING, Field, has_fields
from steersman.manifests.schemas.node import Node
from steersman.models.wire import encode
from steersman.regex import compile_pattern

__all__ = ["add_default", "mismatch"]


def add_default(parent: Node, node: Node, field: Field, *, in_status: bool, problems: Problems) -> None:
    """Make `node` required, add its default, or leave it optional."""
    if field.default is MISSING:
        parent.required.append(field.wire)
        return
    if in_status or field.default is None or field.default is msgspec.UNSET or _is_go_zero_value(field):
        return
    try:
        value = msgspec.json.decode(encode(field.default))
    except (TypeError, ValueError, NotImplementedError) as problem:
        problems.add(field.origin, f"its default cannot be encoded: {problem}")
        return
    if value in ([], {}) and not has_fields(type(field.default)):
        return
    if has_fields(type(field.default)) and _is_plain(field.default, value):
        if not node.has_defaults:
            return
        # The API server validates a default against rules before it fills in the defaults below it.
        if not any(below.rules for _, below in node.walk()):
            node.keywords["default"] = {}
            return
    wrong = mismatch(node, value)
    if wrong:
        problems.add(field.origin, f"the default {field.default!r} is not allowed by its own type: {wrong}")
        return
    node.keywords["default"] = value


def _is_go_zero_value(field: Field) -> bool:
    """Return whether the default is a zero value that Go types have too and that is not written."""
    return field.zero_is_absent and (field.default is False or field.default == "" or field.default == 0)


def _is_plain(value: Any, written: Any) -> bool:
    """Return whether an object equals its class without arguments, which the schema's defaults create from `{}`."""
    try:
        return msgspec.json.decode(encode(type(value)())) == written
    except (TypeError, ValueError):
        return False


def mismatch(node: Node, value: Any) -> str:  # noqa: C901 - one rule after the other
    """Return why a plain value is invalid for a schema, or `""`."""
    k = node.keywords
    if value is None:
        return "" if k.get("nullable") else "null is not allowed"
    if k.get("x-kubernetes-int-or-string"):
        return _text(k, value) if isinstance(value, str) else ""
    match node.type:
        case "string":
            if not isinstance(value, str):
                return f"{value!r} is not a string"
            wrong = _text(k, value)
        case "integer" | "number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return f"{value!r} is not a number"
            wrong = _number(k, value)
        case "boolean":
            wrong = "" if isinstance(value, bool) else f"{value!r} is not a boolean"
        case "array":
            if not isinstance(value, list):
                return f"{value!r} is not a list"
            wrong = _list(node, cast("list[Any]", value))
        case "object":
            if not isinstance(value, dict):
                return f"{value!r} is not an object"
            wrong = _object(node, cast("dict[str, Any]", value))
        case _:
            wrong = ""
    if not wrong and "enum" in k and value not in k["enum"]:
        return f"{value!r} is none of {', '.join(map(repr, k['enum']))}"
    return wrong


def _text(k: dict[str, Any], value: str) -> str:
    if k.get("format") == "byte" and not value:
        return "an empty string is not valid base64 for the API server; write bytes | None = None"
    if len(value) < k.get("minLength", 0):
        return f"shorter than {k['minLength']} characters"
    if len(value) > k.get("maxLength", len(value)):
        return f"longer than {k['maxLength']} characters"
    if "pattern" in k and compile_pattern(k["pattern"]).search(value) is None:
        return f"does not match {k['pattern']!r}"
    return ""


def _number(k: dict[str, Any], value: float) -> str:
    low, high, step = k.get("minimum"), k.get("maximum"), k.get("multipleOf")
    if low is not None and (value < low or (value == low and k.get("exclusiveMinimum"))):
        return f"less than {'or equal to ' if k.get('exclusiveMinimum') else ''}{low}"
    if high is not None and (value > high or (value == high and k.get("exclusiveMaximum"))):
        return f"more than {'or equal to ' if k.get('exclusiveMaximum') else ''}{high}"
    if step and value % step:
        return f"no multiple of {step}"
    return ""


def _list(node: Node, values: list[Any]) -> str:
    k = node.keywords
    if not k.get("minItems", 0) <= len(values) <= k.get("maxItems", len(values)):
        return f"{len(values)} items"
    if k.get("x-kubernetes-list-type") == "set" and any(v in values[:i] for i, v in enumerate(values)):
        return "an item is repeated"
    return next((wrong for v in values if node.items and (wrong := mismatch(node.items, v))), "")


def _object(node: Node, value: dict[str, Any]) -> str:
    k = node.keywords
    if not k.get("minProperties", 0) <= len(value) <= k.get("maxProperties", len(value)):
        return f"{len(value)} entries"
    for name in node.required:
        if name not in value:
            return f"{name} is missing"
    for name, item in value.items():
        child = node.properties.get(name, node.values)
        if child is not None and (wrong := mismatch(child, item)):
            return f"{name}: {wrong}"
    return ""
