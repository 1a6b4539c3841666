"""Whether a value satisfies a schema, as fast as Python goes: each schema becomes one closure, once.

A check only returns whether a value is valid, so that valid objects, the common ones, cost a few microseconds.
Why an object is refused is `explaining`'s to say; both must always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from steersman.regex import compile_pattern
from steersman_cluster.cel.formats import check_for, known

__all__ = [
    "Check",
    "Schema",
    "compile_check",
    "enum_holds",
    "json_type",
    "multiple_of",
    "same",
    "types_of",
    "unique",
    "usable_format",
]

Schema: TypeAlias = Mapping[str, Any]
"""An `openAPIV3Schema` or a part of it."""
Check: TypeAlias = Callable[[Any], bool]

_INT32 = (-(2**31), 2**31 - 1)
_WHOLE_FLOAT = 2**53 - 1
_FLOAT32_MAX = 3.4028235677973366e38


def types_of(schema: Schema) -> tuple[str, ...]:
    """The types a schema takes; empty where it takes any."""
    if schema.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def usable_format(schema: Schema) -> str:
    """The format as far as the API server honours it, else ""."""
    shape = schema.get("format") or ""
    types = types_of(schema)
    return shape if shape and known(types[0] if len(types) == 1 else "", shape) else ""


def json_type(value: Any) -> str:
    """The type of a decoded JSON value, in the schema's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def same(left: Any, right: Any) -> bool:
    """Go's DeepEqual of decoded JSON: unlike Python's, 1, 1.0 and true differ."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        other = cast("dict[str, Any]", right)
        mine = cast("dict[str, Any]", left)
        return len(mine) == len(other) and all(key in other and same(item, other[key]) for key, item in mine.items())
    if isinstance(left, list):
        mine, other = cast("list[Any]", left), cast("list[Any]", right)
        return len(mine) == len(other) and all(map(same, mine, other))
    return left == right


def enum_holds(value: Any, allowed: Sequence[Any]) -> bool:
    """Return whether an enum has the value; numbers are converted to the enum's type first, as Go converts them."""
    for item in allowed:
        if same(value, item):
            return True
        if type(value) is float and type(item) is int and int(value) == item:
            return True
        if type(value) is int and type(item) is float and float(value) == item:
            return True
    return False


def multiple_of(value: float, factor: float) -> bool:
    """Return whether a number is a multiple, within the tolerance Go's library has for floats."""
    if isinstance(value, int):
        whole = int(factor)
        return whole > 0 and value % whole == 0
    if factor <= 0:
        return False
    quotient = 1 / factor * value if factor < 1 else value / factor
    return _integral(quotient)


def _integral(number: float) -> bool:
    """Return whether a number is an integer, as swag.IsFloat64AJSONInteger."""
    if number != number or number in (float("inf"), float("-inf")) or abs(number) > 2**53 - 1:
        return False
    nearest = float(int(number))
    difference = abs(number - nearest)
    if number == nearest:
        return True
    if number == 0 or nearest == 0 or difference < 2.2250738585072014e-308:
        return difference < 1e-9 * 2.2250738585072014e-308
    return difference / min(abs(number) + abs(nearest), 1.7976931348623157e308) < 1e-9


def _always(value: Any) -> bool:
    return True


def compile_check(schema: Schema) -> Check:
    """Return a closure that checks a value against the schema. Its patterns must be valid."""
    checks = _by_type(schema)
    types = types_of(schema)
    nullable = schema.get("nullable") is True
    enum = cast("list[Any]", schema.get("enum") or [])
    composed = _composition(schema)
    if not types:
        return _untyped(checks, enum, composed, nullable=nullable)
    plain = len(types) == 1 and not enum and composed is None and not nullable
    if plain:
        return checks[types[0]]
    by_class: dict[type, Check] = {}
    for kind in types:
        for cls in _CLASSES[kind]:
            by_class[cls] = checks[kind] if kind != "number" or cls is not int else checks["number"]
    if "string" in types and usable_format(schema):
        by_class.setdefault(list, checks["string"])
    simple = frozenset(item for item in enum if type(item) is str)
    only_strings = bool(enum) and len(simple) == len(enum)

    def check(value: Any) -> bool:
        if value is None:
            return nullable and (not enum or enum_holds(None, enum))
        cls = cast("type[Any]", type(value))
        found = by_class.get(cls)
        if found is None or not found(value):
            return False
        if enum and not ((type(value) is str and value in simple) if only_strings else enum_holds(value, enum)):
            return False
        return composed is None or composed(value)

    return check


def _untyped(checks: Mapping[str, Check], enum: list[Any], composed: Check | None, *, nullable: bool) -> Check:
    by_class: dict[type, Check] = {
        str: checks["string"],
        int: checks["number"],
        float: checks["number"],
        list: checks["array"],
        dict: checks["object"],
    }
    if all(item is _always for item in by_class.values()) and not enum and composed is None:
        return _always

    def check(value: Any) -> bool:
        if value is None:
            return not enum or enum_holds(None, enum)
        cls = cast("type[Any]", type(value))
        if not by_class.get(cls, _always)(value) or (enum and not enum_holds(value, enum)):
            return False
        return composed is None or composed(value)

    return check


_CLASSES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class _Maker(Protocol):
    """Makes the check of one type; `typed` tells whether the schema names its types."""

    def __call__(self, schema: Schema, /, *, typed: bool) -> Check: ...


def _by_type(schema: Schema) -> dict[str, Check]:
    """Return the check of each type: that a value has the type and satisfies its constraints."""
    types = types_of(schema)
    typed = bool(types)
    wanted = types or ("string", "number", "array", "object", "boolean")
    makers: dict[str, _Maker] = {
        "string": _string,
        "integer": partial(_number, integer=True),
        "number": partial(_number, integer=False),
        "boolean": _boolean,
        "array": _array,
        "object": _object,
    }
    return {kind: makers[kind](schema, typed=typed) for kind in wanted if kind in makers}


def _boolean(_schema: Schema, *, typed: bool) -> Check:
    return (lambda value: type(value) is bool) if typed else _always


def _string(schema: Schema, *, typed: bool) -> Check:
    low, high = schema.get("minLength"), schema.get("maxLength")
    pattern = cast(str, schema.get("pattern") or "")
    search = compile_pattern(pattern).search if pattern else None
    shape = usable_format(schema)
    formatted = check_for(shape) if shape else None
    if low is None and high is None and search is None and formatted is None:
        return (lambda value: type(value) is str) if typed else _always

    # A quirk of the API server's library: a list passes where a text of some format is asked for.
    lists_pass = typed and bool(shape)

    def check(value: Any) -> bool:
        if type(value) is not str:
            return lists_pass and type(value) is list
        if (high is not None and len(value) > high) or (low is not None and len(value) < low):
            return False
        if search is not None and search(value) is None:
            return False
        return formatted is None or formatted(value)

    return check


def _number(schema: Schema, *, typed: bool, integer: bool) -> Check:  # noqa: C901
    low, high, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    no_low, no_high = schema.get("exclusiveMinimum") is True, schema.get("exclusiveMaximum") is True
    shape = usable_format(schema)
    bounds = (None, None)
    if typed and integer and shape == "int32" and len(types_of(schema)) == 1:
        bounds = _INT32
    elif typed and not integer and shape == "float":
        bounds = (-_FLOAT32_MAX, _FLOAT32_MAX)
    least, most = bounds
    exact = typed and integer

    def check(value: Any) -> bool:
        if exact:
            if type(value) is not int and not _whole_float(value):
                return False
        elif type(value) is not int and type(value) is not float:
            return False
        bottom, top = (low, high)
        if type(value) is int:
            # Bounds of integers are integers, as Go truncates them.
            bottom, top = (int(low) if low is not None else None), (int(high) if high is not None else None)
        if bottom is not None and (value < bottom or (no_low and value == bottom)):
            return False
        if top is not None and (value > top or (no_high and value == top)):
            return False
        if least is not None and (value < least or value > cast(float, most)):
            return False
        return factor is None or multiple_of(value, factor)

    return check


def _whole_float(value: Any) -> bool:
    return type(value) is float and value.is_integer() and abs(value) <= _WHOLE_FLOAT


def _array(schema: Schema, *, typed: bool) -> Check:
    low, high = schema.get("minItems"), schema.get("maxItems")
    distinct = schema.get("uniqueItems") is True
    items = schema.get("items")
    each = compile_check(cast(Schema, items)) if isinstance(items, Mapping) else _always
    if not typed and low is None and high is None and not distinct and each is _always:
        return _always

    def check(value: Any) -> bool:
        if type(value) is not list:
            return False
        values = cast("list[Any]", value)
        if (high is not None and len(values) > high) or (low is not None and len(values) < low):
            return False
        if each is not _always:
            for item in values:
                if not each(item):
                    return False
        return not distinct or unique(values)

    return check


def unique(values: Sequence[Any]) -> bool:
    """Return whether no two values are the same."""
    return not any(same(item, other) for index, item in enumerate(values) for other in values[:index])


def _object(schema: Schema, *, typed: bool) -> Check:
    low, high = schema.get("minProperties"), schema.get("maxProperties")
    properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
    fields = {name: compile_check(node) for name, node in properties.items()}
    needed = tuple(cast("Sequence[str]", schema.get("required") or ()))
    more = schema.get("additionalProperties")
    rest = compile_check(cast(Schema, more)) if isinstance(more, Mapping) else _always
    if not typed and not fields and not needed and low is None and high is None and rest is _always:
        return _always
    find = fields.get

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        values = cast("dict[str, Any]", value)
        for name in needed:
            if name not in values:
                return False
        for name, item in values.items():
            if not find(name, rest)(item):
                return False
        return (low is None or len(values) >= low) and (high is None or len(values) <= high)

    return check


def _composition(schema: Schema) -> Check | None:
    every = [compile_check(node) for node in schema.get("allOf") or ()]
    some = [compile_check(node) for node in schema.get("anyOf") or ()]
    one = [compile_check(node) for node in schema.get("oneOf") or ()]
    never = compile_check(schema["not"]) if isinstance(schema.get("not"), Mapping) else None
    if not every and not some and not one and never is None:
        return None

    def check(value: Any) -> bool:
        for item in every:
            if not item(value):
                return False
        if some and not any(item(value) for item in some):
            return False
        if one and sum(item(value) for item in one) != 1:
            return False
        return never is None or not never(value)

    return check
