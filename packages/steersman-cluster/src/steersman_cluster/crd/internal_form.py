"""A schema as Go's internal type prints as JSON: every field, in Go's order; some errors show whole schemas so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from steersman_cluster.crd.schema_validation import Schema

__all__ = ["shown_rule", "shown_schema"]

_FIELDS = (
    ("ID", "id", ""), ("Schema", "$schema", ""), ("Ref", "$ref", None), ("Description", "description", ""),
    ("Type", "type", ""), ("Nullable", "nullable", False), ("Format", "format", ""), ("Title", "title", ""),
    ("Default", "default", None), ("Maximum", "maximum", None), ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", None), ("ExclusiveMinimum", "exclusiveMinimum", False), ("MaxLength", "maxLength", None),
    ("MinLength", "minLength", None), ("Pattern", "pattern", ""), ("MaxItems", "maxItems", None),
    ("MinItems", "minItems", None), ("UniqueItems", "uniqueItems", False), ("MultipleOf", "multipleOf", None),
    ("Enum", "enum", None), ("MaxProperties", "maxProperties", None), ("MinProperties", "minProperties", None),
    ("Required", "required", None), ("Items", "items", None), ("AllOf", "allOf", None), ("OneOf", "oneOf", None),
    ("AnyOf", "anyOf", None), ("Not", "not", None), ("Properties", "properties", None),
    ("AdditionalProperties", "additionalProperties", None), ("PatternProperties", "patternProperties", None),
    ("Dependencies", "dependencies", None), ("AdditionalItems", "additionalItems", None),
    ("Definitions", "definitions", None), ("ExternalDocs", "externalDocs", None), ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False), ("XListMapKeys", "x-kubernetes-list-map-keys", None),
    ("XListType", "x-kubernetes-list-type", None), ("XMapType", "x-kubernetes-map-type", None),
    ("XValidations", "x-kubernetes-validations", None),
)  # fmt: skip
_ONE = ("not",)
_LISTS = ("allOf", "oneOf", "anyOf")
_MAPS = ("properties", "patternProperties", "definitions")


def shown_schema(schema: Schema) -> str:
    """Format a schema as the API server does in messages: Go's internal field names, as JSON."""
    return _json(_schema(schema))


def shown_rule(rule: Mapping[str, Any]) -> str:
    """The JSON of a validation rule."""
    return _json(_rule(rule))


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _schema(schema: Schema) -> dict[str, Any]:
    return {go: _value(name, schema.get(name, empty)) for go, name, empty in _FIELDS}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _LISTS:
        return [_schema(node) for node in value]
    if name in _MAPS:
        return {key: _schema(node) for key, node in sorted(value.items())}
    if name in _ONE:
        return _schema(value)
    if name == "items":
        if isinstance(value, list):
            return {"Schema": None, "JSONSchemas": [_schema(node) for node in cast("list[Schema]", value)]}
        return {"Schema": _schema(value), "JSONSchemas": None}
    if name in ("additionalProperties", "additionalItems"):
        whole = isinstance(value, Mapping)
        return {"Allows": True if whole else value, "Schema": _schema(cast(Schema, value)) if whole else None}
    if name == "x-kubernetes-validations":
        return [_rule(rule) for rule in value]
    return value


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
