"""Validation of a definition's schema beyond structure: keywords, list types, rules, defaults.

Follows `ValidateCustomResourceDefinitionOpenAPISchema`. Rules are compiled, and their costs estimated, only where the
schema is valid at and below their node; their errors follow those of the schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from steersman_cluster.cel.gotext import go_value
from steersman_cluster.cel.sizes import sizes_of
from steersman_cluster.cel.types import from_schema
from steersman_cluster.crd.correlation import ABSENT
from steersman_cluster.crd.costs import Budget, repeated
from steersman_cluster.crd.embedded import compile_embedded
from steersman_cluster.crd.internal_form import shown_rule, shown_schema
from steersman_cluster.crd.pruning import copy_json, prune
from steersman_cluster.crd.rules import Rule, RuleError, compile_rules, field_path
from steersman_cluster.crd.schema_errors import explain
from steersman_cluster.crd.schema_validation import Schema, compile_check, same
from steersman_cluster.crd.structural import structural_errors
from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
)
from steersman_cluster.objects import Path

__all__ = ["schema_errors"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META = ("metadata", "kind", "apiVersion")
_AT_ROOT = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_ROOT_NAMES = {name[0].lower() + name[1:] for name in _AT_ROOT} | {
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip
_UNSUPPORTED = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)


@dataclass(frozen=True, slots=True)
class _NodeContext:
    """The properties of the path to a node."""

    defaults: bool = True
    why_not: str = ""
    in_meta: bool = False
    uncorrelated: Path | None = None
    """The first ancestor whose items cannot be correlated with the old object."""
    rules: bool = True
    """Whether rules are compiled here; not below allOf and the like."""
    root: bool = False
    times: int | None = 1
    """Return the most occurrences of the node in one object; `None` without a limit."""
    budget: Budget = field(default_factory=Budget)
    of_rules: list[FieldError] = field(default_factory=list[FieldError])
    """The errors of the rules of all nodes."""


def schema_errors(schema: Schema, path: Path, *, status: bool, unchanged: bool = False) -> list[FieldError]:
    """Return the errors of an `openAPIV3Schema`.

    Args:
        schema: The schema.
        path: The path of the schema in the definition.
        status: Whether the version has the subresource `status`.
        unchanged: Whether the schema is stored already; then only the total cost of its rules is limited.
    """
    found: list[FieldError] = []
    at = path / "openAPIV3Schema"
    if status:
        found += _root_fields(schema, path)
    if schema.get("nullable") is True:
        found.append(field_forbidden(at / "nullable", "nullable cannot be true at the root"))
    known = not _unsupported(schema)
    wrong = (structural_errors(at, schema) or _defaults(schema, at, root=True)) if known else []
    found += wrong
    where = _NodeContext(rules=known and not wrong, root=True, budget=Budget(unchanged))
    found += _node(schema, at, where)
    return found + where.of_rules + where.budget.overdrawn(at)


def _root_fields(schema: Schema, path: Path) -> list[FieldError]:
    if (kind := schema.get("type")) and kind != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [field_invalid(path / "openAPIV3Schema.type", kind, text)]
    for name, value in schema.items():
        if value not in (None, "", False, [], {}) and name not in _ROOT_NAMES:
            allowed = f"[{' '.join(_AT_ROOT)}]"
            text = f"only {allowed} fields are allowed at the root of the schema if the status subresource is enabled"
            return [FieldError(ErrorType.INVALID, path / "openAPIV3Schema", None, text, shown_schema(schema))]
    return []


def _unsupported(schema: Schema) -> bool:
    """Return whether a keyword below keeps the schema from being looked at as a structure."""
    if any(schema.get(name) for name, _ in _UNSUPPORTED) or isinstance(schema.get("items"), list):
        return True
    inner = [*_properties(schema).values()]
    inner += [node for name in ("items", "additionalProperties", "not") if (node := _mapping(schema, name)) is not None]
    for name in ("allOf", "anyOf", "oneOf"):
        inner += cast("Sequence[Schema]", schema.get(name) or ())
    return any(map(_unsupported, inner))


def _mapping(schema: Schema, name: str) -> Schema | None:
    found = schema.get(name)
    return cast(Schema, found) if isinstance(found, Mapping) else None


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return cast("Mapping[str, Schema]", schema.get("properties") or {})


def _node(schema: Schema, path: Path, where: _NodeContext) -> list[FieldError]:
    found = _keywords(schema, path, where)
    if schema.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(field_forbidden(path / "uniqueItems", text))
    found += _children(schema, path, replace(where, root=False), root=where.root)
    found += _extensions(schema, path)
    found += _rule_fields(schema, path)
    if not found and where.rules:
        where.of_rules.extend(_rules(schema, path, where))
    return found


def _keywords(schema: Schema, path: Path, where: _NodeContext) -> list[FieldError]:
    found: list[FieldError] = []
    kind = cast(str, schema.get("type") or "")
    if kind and kind not in _TYPES:
        found.append(not_supported(path / "type", kind, _TYPES))
    if schema.get("default") is not None and not where.defaults:
        text = f"must not be set {where.why_not}" if where.why_not else "must not be set"
        found.append(field_forbidden(path / "default", text))
    found += [field_forbidden(path / name, text) for name, text in _UNSUPPORTED if schema.get(name)]
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        found.append(field_forbidden(path / "type", text))
    if isinstance(schema.get("items"), list):
        found.append(field_forbidden(path / "items", "items must be a schema object and not an array"))
    if where.in_meta and schema.get("x-kubernetes-embedded-resource") is True:
        text = "must not be used inside of resource meta"
        found.append(field_forbidden(path / "x-kubernetes-embedded-resource", text))
    return found


def _children(  # noqa: C901 - each kind of child in turn
    schema: Schema, path: Path, where: _NodeContext, *, root: bool
) -> list[FieldError]:
    found: list[FieldError] = []
    where = replace(where, times=repeated(schema, where.times))
    properties, more = _properties(schema), schema.get("additionalProperties")
    if more is not None:
        if properties and more is not True:
            text = "additionalProperties and properties are mutual exclusive"
            found.append(field_forbidden(path / "additionalProperties", text))
        if isinstance(more, Mapping):
            inner = where
            if where.in_meta:
                text = "inside additionalProperties applying to object metadata"
                inner = replace(where, defaults=False, why_not=text)
            found += _node(cast(Schema, more), path / "additionalProperties", inner)
    for name, node in properties.items():
        inner = where
        if schema.get("x-kubernetes-map-type") == "atomic" and where.uncorrelated is None:
            inner = replace(inner, uncorrelated=path)
        if (root or schema.get("x-kubernetes-embedded-resource") is True) and name in _META:
            inner = replace(inner, in_meta=True)
            if root:
                inner = replace(inner, defaults=False, why_not=f"in top-level {name}")
        found += _node(node, (path / "properties").key(name), inner)
    without = replace(where, rules=False)
    if never := _mapping(schema, "not"):
        found += _node(never, path / "not", without)
    for part in ("allOf", "oneOf", "anyOf"):
        for index, node in enumerate(cast("Sequence[Schema]", schema.get(part) or ())):
            found += _node(node, (path / part).at(index), without)
    if items := _mapping(schema, "items"):
        inner = where
        if schema.get("x-kubernetes-list-type") != "map" and where.uncorrelated is None:
            inner = replace(where, uncorrelated=path)
        found += _node(items, path / "items", inner)
    return found


def _extensions(schema: Schema, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    kind = cast(str, schema.get("type") or "")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        at = path / "x-kubernetes-preserve-unknown-fields"
        found.append(field_invalid(at, False, "must be true or undefined"))
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    if map_type is not None:
        found += _must_be(path / "type", kind, "object", "must be object if x-kubernetes-map-type is specified")
        if map_type not in ("atomic", "granular"):
            found.append(not_supported(path / "x-kubernetes-map-type", map_type, ("atomic", "granular")))
    if list_type is not None:
        wrong = _must_be(path / "type", kind, "array", "must be array if x-kubernetes-list-type is specified")
        found += wrong
        if not wrong and list_type == "set":
            found += _atomic_items(schema, path)
        if list_type not in ("atomic", "set", "map"):
            found.append(not_supported(path / "x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    if schema.get("x-kubernetes-list-map-keys") and list_type != "map":
        text, at = "must be map if x-kubernetes-list-map-keys is non-empty", path / "x-kubernetes-list-type"
        found.append(required(at, text) if list_type is None else field_invalid(at, list_type, text))
    if list_type == "map":
        found += _map_items(schema, path)
    if list_type in ("set", "map"):
        found += _nullable_items(schema, path, cast(str, list_type))
    return found


def _must_be(path: Path, kind: str, wanted: str, text: str) -> list[FieldError]:
    if kind == wanted:
        return []
    return [field_invalid(path, kind, text) if kind else required(path, text)]


def _atomic_items(schema: Schema, path: Path) -> list[FieldError]:
    items = _mapping(schema, "items") or {}
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        return [field_invalid(path / "items" / "x-kubernetes-list-type", list_type, text)]
    if items.get("type") == "object" and map_type != "atomic":
        return [field_invalid(path / "items" / "x-kubernetes-map-type", list_type, text)]
    return []


def _map_items(schema: Schema, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    at = path / "x-kubernetes-list-map-keys"
    keys = cast("list[str]", schema.get("x-kubernetes-list-map-keys") or [])
    items = _mapping(schema, "items")
    if not keys:
        found.append(required(at, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        found.append(required(path / "items", "must have a schema if x-kubernetes-list-type is map"))
        return found
    kind = items.get("type") or ""
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        found.append(field_invalid(path / "items" / "type", kind, text))
        return found
    known = _properties(items)
    for index, key in enumerate(keys):
        if key not in known:
            found.append(field_invalid(at, keys, "entries must all be names of item properties"))
        elif known[key].get("type") in ("array", "object"):
            place = (path / "items" / "properties").key(key) / "type"
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            found.append(field_invalid(place, kind, text))
        if key in keys[:index]:
            found.append(field_invalid(at, keys, "must not contain duplicate entries"))
    return found


def _nullable_items(schema: Schema, path: Path, list_type: str) -> list[FieldError]:
    items = _mapping(schema, "items")
    if items is None:
        return []
    found: list[FieldError] = []
    if items.get("nullable") is True:
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        found.append(field_forbidden(path / "items" / "nullable", text))
    if list_type == "map":
        known, needed = _properties(items), cast("Sequence[str]", items.get("required") or ())
        for key in cast("Sequence[str]", schema.get("x-kubernetes-list-map-keys") or ()):
            at = (path / "items" / "properties").key(key)
            mine = "this property is in x-kubernetes-list-map-keys, so it"
            if key in known and key not in needed and known[key].get("default") is None:
                found.append(required(at / "default", f"{mine} must have a default or be a required property"))
            if key in known and known[key].get("nullable") is True:
                found.append(field_forbidden(at / "nullable", f"{mine} cannot be nullable"))
    return found


def _all_rules(schema: Schema) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", schema.get("x-kubernetes-validations") or ())


def _rule_fields(schema: Schema, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for index, rule in enumerate(_all_rules(schema)):
        at = (path / "x-kubernetes-validations").at(index)
        text, message = cast(str, rule.get("rule") or "").strip(), cast(str, rule.get("message") or "")
        if not text:
            found.append(required(at / "rule", "rule is not specified"))
        elif message and not message.strip():
            found.append(field_invalid(at / "message", message, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", message.strip()):
            found.append(field_invalid(at / "message", message, "must not contain line breaks"))
        elif re.search(r"[\n\r]", text) and not message.strip():
            found.append(required(at / "message", "message must be specified if rule contains line breaks"))
        expression = cast(str, rule.get("messageExpression") or "")
        if expression and not expression.strip():
            found.append(required(at / "messageExpression", "messageExpression must be non-empty if specified"))
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            found.append(not_supported(at / "reason", rule["reason"], _REASONS))
        found += _rule_path(schema, cast(str, rule.get("fieldPath") or ""), at / "fieldPath")
    return found


def _rule_path(schema: Schema, text: str, at: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if text and not text.strip():
        found.append(field_invalid(at, text, "must be non-empty if specified"))
    if re.search(r"[\n\r]", text):
        found.append(field_invalid(at, text, "must not contain line breaks"))
    if text:
        try:
            field_path(text, schema)
        except ValueError:
            found.append(field_invalid(at, text, "must be a valid path"))
    return found


def _rules(schema: Schema, path: Path, where: _NodeContext) -> list[FieldError]:
    found: list[FieldError] = []
    rules = _all_rules(schema)
    if not rules:
        return found
    kind, sizes = from_schema(schema, root=where.root), sizes_of(schema, root=where.root)
    if kind is None or sizes is None:
        text = "internal error: failed to retrieve type information for x-kubernetes-validations"
        return [FieldError(ErrorType.INTERNAL, path / "x-kubernetes-validations", detail=text)]
    for index, rule in enumerate(rules):
        at = (path / "x-kubernetes-validations").at(index)
        try:
            compiled = Rule(rule, kind, cast(str, schema.get("type") or ""))
        except RuleError as error:
            found.append(FieldError(ErrorType.INVALID, at / error.part, None, str(error), shown_rule(rule)))
            continue
        found += where.budget.rule(at / "rule", compiled.program.cost(sizes), where.times, sizes)
        if compiled.expression is not None:
            found += where.budget.message(at / "messageExpression", compiled.expression.cost(sizes))
        if compiled.transition:
            if where.uncorrelated is not None:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {where.uncorrelated}"
                found.append(field_invalid(at / "rule", rule.get("rule"), text))
        elif rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            found.append(field_invalid(at / "optionalOldSelf", rule["optionalOldSelf"], text))
    return found


def _defaults(schema: Schema, path: Path, *, root: bool = False, in_meta: bool = False) -> list[FieldError]:
    found: list[FieldError] = []
    embedded = schema.get("x-kubernetes-embedded-resource") is True
    in_meta = in_meta and not embedded
    default = schema.get("default")
    if default is not None and not in_meta:
        found += _default(schema, default, path / "default", embedded=embedded)
    if items := _mapping(schema, "items"):
        found += _defaults(items, path / "items", in_meta=in_meta)
    for name, node in _properties(schema).items():
        inside = in_meta or ((embedded or root) and name in _META)
        found += _defaults(node, (path / "properties").key(name), in_meta=inside)
    return found


def _default(schema: Schema, default: Any, at: Path, *, embedded: bool) -> list[FieldError]:
    found: list[FieldError] = []
    pruned = copy_json(default)
    prune(schema, pruned, root=embedded)
    if not same(pruned, default):
        found.append(FieldError(ErrorType.INVALID, at, default, "must not have unknown fields", go_value(default)))
    wrong: list[FieldError] = []
    if walk := compile_embedded(schema):
        walk(at, default, wrong)
    if not wrong and not compile_check(schema)(default):
        wrong += explain(schema, default, prefix=at)
    if not wrong:
        try:
            rules = compile_rules(schema, root=embedded)
        except RuleError:
            return found  # The rule's own place reports it.
        if rules is not None:
            # As a new value, and, for the rules that compare, as an unchanged one.
            wrong += rules.validate(default, ABSENT, at) + rules.validate(default, default, at)
    return found + wrong
