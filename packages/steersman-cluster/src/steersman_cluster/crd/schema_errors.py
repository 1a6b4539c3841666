"""Errors of values that do not satisfy a schema, in the words of the API server.

Runs only when `checking` said no. Follows kube-openapi's validators: their order, their texts, their habit of
reporting, of several alternatives, the one that came furthest. On updates an error in a part that did not change is
forgiven (KEP-4008, ratcheting); parts are correlated by field name, list-map keys, and for atomic lists not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from steersman.regex import compile_pattern
from steersman_cluster.cel.formats import check_for
from steersman_cluster.cel.gotext import go_float, go_value
from steersman_cluster.crd.correlation import ABSENT, correlate_index, correlate_key
from steersman_cluster.crd.schema_validation import (
    Schema,
    enum_holds,
    json_type,
    multiple_of,
    same,
    types_of,
    unique,
    usable_format,
)
from steersman_cluster.errors import ErrorType, FieldError

__all__ = ["explain"]

NO_PATH = "<nil>"
"""The text of Go for the path of an error without one."""


@dataclass(slots=True)
class _Finding:
    """One error before it has its place: `path` is the validator's, `None` for what belongs to no field."""

    path: str | None
    text: str
    type: ErrorType
    shown: str
    detail: str


@dataclass(slots=True)
class _Result:
    errors: list[_Finding] = field(default_factory=list[_Finding])
    matches: int = 0

    def merge(self, other: _Result) -> None:
        for error in other.errors:
            self.add(error)
        self.matches += other.matches

    def add(self, error: _Finding) -> None:
        if not any(error.text == known.text for known in self.errors):
            self.errors.append(error)


def explain(schema: Schema, value: Any, *, old: Any = ABSENT, prefix: str = "") -> list[FieldError]:
    """Return all errors of a value.

    Args:
        schema: The schema.
        value: The value.
        old: The previous value, for ratcheting.
        prefix: The path of the value.
    """
    result = _explain(schema, value, "", old)
    found: list[FieldError] = []
    for error in result.errors:
        path = (error.path or "").removeprefix(".")
        place = ".".join(part for part in (prefix, path) if part) or NO_PATH
        found.append(FieldError(error.type, place, None, error.detail, error.shown))
    return found


def _explain(schema: Schema, value: Any, path: str, old: Any) -> _Result:
    result = _validate(schema, value, path, old)
    if result.errors and old is not ABSENT and same(value, old):
        return _Result(matches=result.matches)
    return result


def _validate(schema: Schema, value: Any, path: str, old: Any) -> _Result:
    result = _Result()
    if value is None:
        result.merge(_type(schema, value, path))
        result.merge(_enum(schema, value, path))
        return result
    parts: list[_Result] = []
    if types_of(schema) or usable_format(schema):
        parts.append(_type(schema, value, path))
    parts.append(_composition(schema, value, path, old))
    match value:
        case bool():
            pass
        case str():
            parts.append(_string(schema, value, path))
            if (shape := usable_format(schema)) and check_for(shape):
                parts.append(_format(shape, value, path))
        case int() | float():
            parts.append(_number(schema, value, path))
        case list():
            parts.append(_array(schema, cast("list[Any]", value), path, old))
        case _:
            pass
    parts.append(_enum(schema, value, path))
    if isinstance(value, dict):
        parts.append(_object(schema, cast("dict[str, Any]", value), path, old))
    for part in parts:
        result.merge(part)
        result.matches += 1
    result.matches += 1
    return result


def _place(path: str) -> str:
    return f"{path} in body"


def _invalid(path: str, text: str, value: Any) -> _Finding:
    return _Finding(path, text, ErrorType.INVALID, go_value("" if value is None else value), text)


def _general(text: str) -> _Finding:
    return _Finding(None, text, ErrorType.INVALID, '""', text)


def _wrong_type(path: str, wanted: str, shown: str) -> _Finding:
    text = f"{_place(path)} must be of type {wanted}: {go_value(shown)}"
    return _Finding(path, text, ErrorType.TYPE_INVALID, go_value(shown), text)


def _type(schema: Schema, value: Any, path: str) -> _Result:
    types = types_of(schema)
    if value is None:
        if types and schema.get("nullable") is not True:
            return _Result([_wrong_type(path, ",".join(types), "null")])
        return _Result(matches=1)
    kind, shape = json_type(value), usable_format(schema)
    numeric = kind in ("integer", "number") and ("number" in types or kind in types)
    whole = kind == "number" and "integer" in types and _is_integer(value)
    if kind not in ("string", "array") and shape and not (kind in types or whole or numeric):
        kinds = {"integer": "int64", "number": "float64"}
        if kinds.get(kind, "") != shape:
            return _Result([_wrong_type(path, shape, kinds.get(kind, ""))])
    if not ("number" in types or "integer" in types) and shape and kind in ("string", "array"):
        return _Result(matches=1)
    if not (kind in types or whole or numeric):
        return _Result([_wrong_type(path, ",".join(types), kind)])
    return _Result(matches=1)


def _is_integer(value: float) -> bool:
    return multiple_of(value, 1.0)


def _enum(schema: Schema, value: Any, path: str) -> _Result:
    allowed = cast("list[Any]", schema.get("enum") or [])
    if not allowed or enum_holds(value, allowed):
        return _Result()
    names = [item if isinstance(item, str) else json.dumps(item, separators=(",", ":")) for item in allowed]
    text = f"{_place(path)} should be one of [{' '.join(map(str, allowed))}]"
    detail = f"supported values: {', '.join(go_value(name) for name in names)}"
    return _Result([_Finding(path, text, ErrorType.NOT_SUPPORTED, go_value(value), detail)])


def _string(schema: Schema, value: str, path: str) -> _Result:
    low, high = schema.get("minLength"), schema.get("maxLength")
    pattern = cast(str, schema.get("pattern") or "")
    if high is not None and len(value) > high:
        text = f"{_place(path)} should be at most {high} chars long"
        unit = "byte" if high == 1 else "bytes"
        return _Result([_Finding(path, text, ErrorType.TOO_LONG, "", f"may not be more than {high} {unit}")])
    if low is not None and len(value) < low:
        return _Result([_invalid(path, f"{_place(path)} should be at least {low} chars long", value)])
    if pattern and compile_pattern(pattern).search(value) is None:
        return _Result([_invalid(path, f"{_place(path)} should match '{pattern}'", value)])
    return _Result()


def _format(shape: str, value: str, path: str) -> _Result:
    check = check_for(shape)
    if check is None or check(value):
        return _Result()
    text = f"{_place(path)} must be of type {shape}: {go_value(value)}"
    return _Result([_Finding(path, text, ErrorType.TYPE_INVALID, go_value(value), text)])


def _number(schema: Schema, value: float, path: str) -> _Result:
    result = _Result()
    types, shape = types_of(schema), usable_format(schema)
    kind = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    if kind and not _in_range(value, kind, shape):
        what = f"with format {shape}" if shape else "(default format)"
        result.add(_general(f"Checked value must be of type {kind} {what} in {path}"))
    low, high, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    whole = int(factor) if factor is not None and isinstance(value, int) else factor
    if whole is not None and whole <= 0:
        text = f"factor MultipleOf declared for {path} must be positive: {_shown(whole)}"
        result.add(_invalid(path, text, whole))
    elif factor is not None and not multiple_of(value, factor):
        shown = str(int(factor)) if isinstance(value, int) else go_float(factor)
        result.add(_invalid(path, f"{_place(path)} should be a multiple of {shown}", value))
    if low is not None:
        bound = int(low) if isinstance(value, int) else float(low)
        no_low = schema.get("exclusiveMinimum") is True
        if value < bound or (no_low and value == bound):
            words = "greater than" if no_low else "greater than or equal to"
            result.add(_invalid(path, f"{_place(path)} should be {words} {_shown(bound)}", value))
    if high is not None:
        bound = int(high) if isinstance(value, int) else float(high)
        no_high = schema.get("exclusiveMaximum") is True
        if value > bound or (no_high and value == bound):
            words = "less than" if no_high else "less than or equal to"
            result.add(_invalid(path, f"{_place(path)} should be {words} {_shown(bound)}", value))
    result.matches += 1
    return result


def _in_range(value: float, kind: str, shape: str) -> bool:
    if kind == "integer":
        bits = 31 if shape == "int32" else 63
        return (isinstance(value, int) or value.is_integer()) and -(2**bits) <= value <= 2**bits - 1
    if kind == "number" and shape == "float":
        return abs(value) <= 3.4028235677973366e38
    return True


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else go_float(bound)


def _array(schema: Schema, values: list[Any], path: str, old: Any) -> _Result:
    result = _Result()
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(values):
            before = correlate_index(schema, values, old, index)
            result.merge(_explain(cast(Schema, items), item, f"{path}[{index}]", before))
    low, high = schema.get("minItems"), schema.get("maxItems")
    if low is not None and len(values) < low:
        result.add(_invalid(path, f"{_place(path)} should have at least {low} items", len(values)))
    if high is not None and len(values) > high:
        result.add(_too_many(path, f"{_place(path)} should have at most {high} items", len(values), high))
    if schema.get("uniqueItems") is True and not unique(values):
        result.add(_invalid(path, f"{_place(path)} shouldn't contain duplicates", None))
    result.matches += 1
    return result


def _too_many(path: str, text: str, count: int, most: int) -> _Finding:
    items = "item" if most == 1 else "items"
    return _Finding(path, text, ErrorType.TOO_MANY, str(count), f"must have at most {most} {items}")


def _object(schema: Schema, values: dict[str, Any], path: str, old: Any) -> _Result:  # noqa: C901
    result = _Result()
    low, high = schema.get("minProperties"), schema.get("maxProperties")
    if low is not None and len(values) < low:
        result.add(_invalid(path, f"{_place(path)} should have at least {low} properties", len(values)))
    if high is not None and len(values) > high:
        result.add(_too_many(path, f"{_place(path)} should have at most {high} properties", len(values), high))
    properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        for name, item in values.items():
            if name not in properties:
                before = correlate_key(schema, old, name)
                result.merge(_explain(cast(Schema, more), item, f"{path}.{name}", before))
    for name, node in properties.items():
        if name in values:
            before = correlate_key(schema, old, name)
            if not path and name in ("apiVersion", "kind", "metadata"):
                before = ABSENT
            result.merge(_explain(node, values[name], f"{path}.{name}" if path else name, before))
    for name in cast("Sequence[str]", schema.get("required") or ()):
        if name not in values:
            text = f"{path}.{name} in body is required"
            result.add(_Finding(f"{path}.{name}", text, ErrorType.REQUIRED, "", ""))
    return result


def _composition(schema: Schema, value: Any, path: str, old: Any) -> _Result:
    result = _Result()
    if some := cast("list[Schema]", schema.get("anyOf") or []):
        result.merge(_any_of(some, value, path, old))
    if one := cast("list[Schema]", schema.get("oneOf") or []):
        result.merge(_one_of(one, value, path, old))
    if every := cast("list[Schema]", schema.get("allOf") or []):
        result.merge(_all_of(every, value, path, old))
    never = schema.get("not")
    if isinstance(never, Mapping) and not _validate(cast(Schema, never), value, path, old).errors:
        result.add(_general(f"{go_value(path)} must not validate the schema (not)"))
    result.matches += 1
    return result


def _any_of(schemas: Sequence[Schema], value: Any, path: str, old: Any) -> _Result:
    best: _Result | None = None
    for schema in schemas:
        tried = _validate(schema, value, path, old)
        if not tried.errors:
            return tried
        if best is None or tried.matches > best.matches:
            best = tried
    result = _Result([_general(f"{go_value(path)} must validate at least one schema (anyOf)")])
    assert best is not None  # a composition has at least one schema
    result.merge(best)
    return result


def _one_of(schemas: Sequence[Schema], value: Any, path: str, old: Any) -> _Result:
    best: _Result | None = None
    valid: list[_Result] = []
    for schema in schemas:
        tried = _validate(schema, value, path, old)
        if not tried.errors:
            valid.append(tried)
        elif best is None or tried.matches > best.matches:
            best = tried
    if len(valid) == 1:
        return valid[0]
    how = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result = _Result([_general(f"{go_value(path)} must validate one and only one schema (oneOf). {how}")])
    if not valid and best is not None:
        result.merge(best)
    return result


def _all_of(schemas: Sequence[Schema], value: Any, path: str, old: Any) -> _Result:
    result = _Result()
    tried = [_validate(schema, value, path, old) for schema in schemas]
    for item in tried:
        result.merge(item)
    valid = sum(not item.errors for item in tried)
    if valid != len(schemas):
        none = "" if valid else ". None validated"
        result.add(_general(f"{go_value(path)} must validate all the schemas (allOf){none}"))
    return result
