"""CEL's types, Kubernetes' opaque ones among them, and the types that structural schemas have in expressions.

An object's fields that no expression can name are left out, as are those of unknown type. Names of fields are escaped
(`foo-bar` is `foo__dash__bar`). Follows apiserver's `cel/common/schemas.go`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from steersman_cluster.objects import dig

__all__ = [
    "ANY", "BOOL", "BYTES", "DOUBLE", "DURATION", "INT", "NULL", "STRING", "TIMESTAMP", "UINT", "Type", "escape",
    "from_schema", "list_of", "map_of", "object_of", "opaque", "optional_of", "parameters", "same", "substitute",
    "unify", "with_metadata",
]  # fmt: skip

_RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_NULLABLE = frozenset({"object", "opaque", "message", "timestamp", "duration", "null_type"})
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type; compared by identity for objects, by structure (`same`) otherwise."""

    kind: str
    """int, uint, double, bool, string, bytes, null_type, dyn, timestamp, duration, list, map, object, opaque,
    message, optional, param, type."""
    params: tuple[Type, ...] = ()
    name: str = ""
    fields: Mapping[str, tuple[str, Type]] = field(default_factory=dict[str, tuple[str, "Type"]])
    """For objects: the fields by escaped name, with the real name."""

    def __str__(self) -> str:
        match self.kind:
            case "list" | "map":
                return f"{self.kind}({', '.join(map(str, self.params))})"
            case "optional":
                return f"optional_type({self.params[0]})"
            case "type":
                return f"type({self.params[0]})" if self.params else "type"
            case "object" | "opaque" | "param" | "message":
                return self.name
            case "null_type":
                return "null"
            case _:
                return self.kind


INT, UINT, DOUBLE = Type("int"), Type("uint"), Type("double")
BOOL, STRING, BYTES, NULL = Type("bool"), Type("string"), Type("bytes"), Type("null_type")
ANY, TIMESTAMP, DURATION = Type("dyn"), Type("timestamp"), Type("duration")


def list_of(element: Type) -> Type:
    """Return the list type with this type of elements."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps from `key` to `value`."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type `optional_type(T)` of `optional.of(x)` with `x` of type `T`."""
    return Type("optional", (value,))


def opaque(name: str) -> Type:
    """Return an opaque type of Kubernetes' libraries, such as a quantity."""
    return Type("opaque", (), name)


def object_of(name: str, fields: Mapping[str, Type]) -> Type:
    """An object with exactly these fields; names that cannot be escaped are left out."""
    known: dict[str, tuple[str, Type]] = {}
    for real, kind in fields.items():
        if escaped := escape(real):
            known[escaped] = (real, kind)
    return Type("object", (), name, known)


def escape(name: str) -> str:
    """A field's name as expressions write it; "" where they cannot."""
    if not name or name[0].isdigit() or re.search(r"[^a-zA-Z0-9\-./_]", name):
        return ""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPED[found[0]], name)


def with_metadata(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A resource's schema as rules see it: of metadata only the name and generateName."""
    text = {"type": "string"}
    properties = cast("dict[str, Any]", dict(schema.get("properties") or {}))
    known = cast("Mapping[str, Any]", dig(properties, "metadata", "properties", default={}))
    names = {"name": known.get("name", text), "generateName": known.get("generateName", text)}
    properties.update(apiVersion=text, kind=text, metadata={"type": "object", "properties": names})
    return {**schema, "type": "object", "properties": properties}


def from_schema(schema: Mapping[str, Any], name: str = "selfType", *, root: bool = False) -> Type | None:
    """The type of a structural schema; `None` where expressions cannot see such values."""
    if schema.get("x-kubernetes-int-or-string") is True:
        return ANY
    if root or schema.get("x-kubernetes-embedded-resource") is True:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            element = from_schema(cast("Mapping[str, Any]", items), f"{name}.@idx") if items else None
            return Type("list", (element,), _list_type(schema)) if element else None
        case "object":
            return _object(schema, name)
        case "string":
            formats = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
            return formats.get(cast(str, schema.get("format") or ""), STRING)
        case "boolean":
            return BOOL
        case "number":
            return DOUBLE
        case "integer":
            return INT
        case _:
            return None


def _list_type(schema: Mapping[str, Any]) -> str:
    """`set`, `map:name,port`, or "": sets and list-maps are compared and added without regard to order."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return f"map:{','.join(cast('Sequence[str]', schema.get('x-kubernetes-list-map-keys') or ()))}"
    return "set" if kind == "set" else ""


def _object(schema: Mapping[str, Any], name: str) -> Type | None:
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        value = from_schema(cast("Mapping[str, Any]", more), f"{name}.@elem")
        return map_of(STRING, value) if value else None
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
    fields = {key: from_schema(node, f"{name}.{key}") for key, node in properties.items()}
    return object_of(name, {key: kind for key, kind in fields.items() if kind is not None})


def unify(formal: Type, actual: Type, bound: dict[str, Type]) -> bool:
    """Return whether a value of type `actual` may be given for `formal`; binds the type parameters of `formal`."""
    if formal.kind == "param":
        known = bound.get(formal.name)
        if known is None or known.kind == "param":
            bound[formal.name] = actual
            return True
        if unify(known, actual, bound):
            return True
        if unify(actual, known, bound):
            bound[formal.name] = actual
            return True
        return False
    if formal.kind == "dyn" or actual.kind in ("dyn", "param"):
        return True
    if actual.kind == "null_type" and formal.kind in (
        "object",
        "opaque",
        "message",
        "timestamp",
        "duration",
        "null_type",
    ):
        return True
    if formal.kind != actual.kind:
        return False
    if formal.kind in ("object", "opaque", "message"):
        return formal is actual or formal.name == actual.name
    if formal.kind == "type":
        return True
    return all(map(lambda left, right: unify(left, right, bound), formal.params, actual.params))


def substitute(kind: Type, bound: Mapping[str, Type]) -> Type:
    """A type with its parameters filled in; unbound ones are dynamic."""
    if kind.kind == "param":
        return bound.get(kind.name, ANY)
    if kind.params:
        return Type(kind.kind, tuple(substitute(each, bound) for each in kind.params), kind.name)
    return kind


def same(left: Type, right: Type) -> bool:
    """Return whether two types are the same one."""
    if left is right:
        return True
    if left.kind != right.kind or len(left.params) != len(right.params):
        return False
    if left.kind in ("object", "opaque", "message", "param") and left.name != right.name:
        return False
    return all(same(a, b) for a, b in zip(left.params, right.params, strict=True))


def parameters(kinds: Sequence[Type]) -> str:
    """Types as an error shows a call's arguments."""
    return f"({', '.join(map(str, kinds))})"
