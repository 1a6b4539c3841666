"""Whether a schema is structural: types everywhere, and nothing but values' rules below allOf, anyOf, oneOf and not.

Follows apiextensions' `schema/validation.go`; errors are sorted by their text, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from steersman.regex import compile_pattern
from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.objects import Path

__all__ = ["structural_errors"]

Level: TypeAlias = Literal["root", "item", "field"]
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NESTED = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
)


def structural_errors(path: Path, schema: Schema) -> list[FieldError]:
    """Return the errors of a schema that is not structural."""
    found = _invariants(schema, "root", path) + _complete(schema, schema, path, path)
    return sorted(found, key=lambda error: error.message)


def _schemas(schema: Schema, name: str) -> Sequence[Schema]:
    return cast("Sequence[Schema]", schema.get(name) or ())


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return cast("Mapping[str, Schema]", schema.get("properties") or {})


def _node(schema: Schema, name: str) -> Schema | None:
    found = schema.get(name)
    return cast(Schema, found) if isinstance(found, Mapping) else None


def _invariants(schema: Schema, level: Level, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    kind = cast(str, schema.get("type") or "")
    items = _node(schema, "items")
    if kind == "array" and items is None:
        found.append(required(path / "items", "must be specified"))
    if items is not None:
        found += _invariants(items, "item", path / "items")
    for name, node in _properties(schema).items():
        found += _invariants(node, "field", (path / "properties").key(name))
    if schema.get("additionalProperties") is not None:
        if level == "root":
            found.append(field_forbidden(path / "additionalProperties", "must not be used at the root"))
        if more := _node(schema, "additionalProperties"):
            found += _invariants(more, "field", path / "additionalProperties")
    found += _extensions(schema, path)
    skip_any = schema.get("anyOf") == _INT_OR_STRING
    every = _schemas(schema, "allOf")
    skip_first = bool(every) and every[0].get("anyOf") == _INT_OR_STRING
    found += _values(schema, path, skip_any=skip_any, skip_first=skip_first, rules=False)
    found += _types(schema, kind, level, path)
    found += _resource(schema, kind, level, path)
    return found


def _extensions(schema: Schema, path: Path) -> list[FieldError]:
    if schema.get("x-kubernetes-int-or-string") is not True:
        return []
    return [
        field_invalid(path / name, True, "must be false if x-kubernetes-int-or-string is true")
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if schema.get(name) is True
    ]


def _types(schema: Schema, kind: str, level: Level, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    open_type = (
        schema.get("x-kubernetes-int-or-string") is True or schema.get("x-kubernetes-preserve-unknown-fields") is True
    )
    if schema.get("x-kubernetes-embedded-resource") is True:
        text = "must be object if x-kubernetes-embedded-resource is true"
        if kind != "object":
            found.append(field_invalid(path / "type", kind, text) if kind else required(path / "type", text))
        if schema.get("additionalProperties") is not None:
            text = "must not be used if x-kubernetes-embedded-resource is set"
            found.append(field_forbidden(path / "additionalProperties", text))
    elif not kind and not open_type:
        found.append(required(path / "type", _EMPTY_TYPE[level]))
    if level == "root" and kind and kind != "object":
        found.append(field_invalid(path / "type", kind, "must be object at the root"))
    return found


def _resource(schema: Schema, kind: str, level: Level, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    properties = _properties(schema)
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    whole = level == "root" or embedded
    for name in ("kind", "apiVersion"):
        if whole and name in properties and properties[name].get("type") != "string":
            at = (path / "properties").key(name) / "type"
            found.append(field_invalid(at, properties[name].get("type") or "", "must be string"))
    if "metadata" in properties:
        metadata, at = properties["metadata"], (path / "properties").key("metadata")
        if whole and metadata.get("type") != "object":
            found.append(field_invalid(at / "type", metadata.get("type") or "", "must be object"))
        if level == "root" and not _plain_metadata(metadata):
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            found.append(field_forbidden(at, text))
    if embedded and schema.get("x-kubernetes-preserve-unknown-fields") is not True and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        found.append(required(path / "properties", text))
    return found


def _plain_metadata(schema: Schema) -> bool:
    if set(_properties(schema)) - {"name", "generateName"}:
        return False
    return not any(value for name, value in schema.items() if name not in ("type", "default", "properties"))


def _values(schema: Schema, path: Path, *, skip_any: bool, skip_first: bool, rules: bool) -> list[FieldError]:
    """Return the errors of a value's schema; `rules` allows rules below anyOf and the like."""
    found: list[FieldError] = []
    if not skip_any:
        for index, node in enumerate(_schemas(schema, "anyOf")):
            found += _nested(node, (path / "anyOf").at(index))
    for index, node in enumerate(_schemas(schema, "allOf")):
        found += _nested(node, (path / "allOf").at(index), skip_any=skip_first and index == 0)
    for index, node in enumerate(_schemas(schema, "oneOf")):
        found += _nested(node, (path / "oneOf").at(index))
    if never := _node(schema, "not"):
        found += _nested(never, path / "not")
    pattern = cast(str, schema.get("pattern") or "")
    if pattern:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            found.append(field_invalid(path / "pattern", pattern, text))
    return found


def _nested(schema: Schema, path: Path, *, skip_any: bool = False) -> list[FieldError]:
    found = _values(schema, path, skip_any=skip_any, skip_first=False, rules=False)
    if items := _node(schema, "items"):
        found += _nested(items, path / "items")
    for name, node in _properties(schema).items():
        found += _nested(node, (path / "properties").key(name))
    for name, text in _NESTED:
        value: Any = schema.get(name)
        if value not in (None, "", False, []) or (name == "additionalProperties" and value is False):
            found.append(field_forbidden(path / name, text))
    if schema.get("x-kubernetes-validations"):
        found.append(field_forbidden(path / "x-kubernetes-validations", "must be empty to be structural"))
    if "metadata" in _properties(schema):
        at = (path / "properties").key("metadata")
        found.append(field_forbidden(at, "must not be specified in a nested context"))
    return found


def _complete(values: Schema, schema: Schema | None, at: Path, path: Path) -> list[FieldError]:
    """Whatever the nested parts restrict must be defined in the structure too."""
    found: list[FieldError] = []
    if never := _node(values, "not"):
        found += _nested_complete(never, schema, at, path / "not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, node in enumerate(_schemas(values, name)):
            found += _nested_complete(node, schema, at, (path / name).at(index))
    return found


def _nested_complete(values: Schema, schema: Schema | None, at: Path, path: Path) -> list[FieldError]:
    if schema is None:
        return [required(at, f"because it is defined in {path}")]
    found = _complete(values, schema, at, path)
    if items := _node(values, "items"):
        found += _nested_complete(items, _node(schema, "items"), at / "items", path / "items")
    known = _properties(schema)
    for name, node in _properties(values).items():
        inner, place = (at / "properties").key(name), (path / "properties").key(name)
        if name in known:
            found += _nested_complete(node, known[name], inner, place)
        else:
            found.append(required(inner, f"because it is defined in {place}"))
    return found
