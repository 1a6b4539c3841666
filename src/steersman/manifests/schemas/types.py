"""Structural OpenAPI v3 schemas of Python types, for every annotation that a field can have.

`SchemaBuilder` follows the annotations of a class and creates a tree of nodes. Types without a structural schema, or
with an unexpected JSON form, are reported with their place.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, cast, get_args, get_origin

import msgspec

from steersman.manifests.errors import Origin, Problems
from steersman.manifests.schemas.builtin_types import add_facts
from steersman.manifests.schemas.constraints import apply_markers
from steersman.manifests.schemas.defaults import add_default
from steersman.manifests.schemas.fields import Field, doc_of, fields_of_type, has_fields, is_builtin, origin_of
from steersman.manifests.schemas.node import Node, copy_of
from steersman.manifests.schemas.rules import add_class_rules, add_immutables, check_cost
from steersman.manifests.schemas.source import source_of
from steersman.manifests.schemas.unions import tagged_union
from steersman.models import Duration, Dynamic, MicroTime, ObjectMeta, Quantity, Resource
from steersman.models.markers import Flag
from steersman.models.meta import Condition

__all__ = ["DURATION_PATTERN", "QUANTITY_PATTERN", "SchemaBuilder"]

QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"
DURATION_PATTERN: Final = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
_ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_LEAVES: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"},
    MicroTime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    Duration: {"type": "string", "format": "duration", "pattern": DURATION_PATTERN},
    Quantity: {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN},
    Any: _ANYTHING,
    object: _ANYTHING,
    msgspec.Raw: _ANYTHING,
    Dynamic: {"type": "object", **_ANYTHING},
}
_REFUSED: Final[dict[Any, str]] = {
    float: "some clients round floats; use Quantity, or allow rounding with Format('double')",
    complex: "JSON has no complex numbers",
    Decimal: "Decimal has no schema; use Quantity",
    timedelta: "timedelta is written as ISO 8601; use Duration, which is Go's notation",
    NoneType: "a field whose value is always null has no use; remove it",
}
_LISTS: Final = (tuple, list, set, frozenset)
_META_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "name": {"type": "string"},
    "namespace": {"type": "string"},
}
Markers = tuple[Any, ...]


class SchemaBuilder:
    """Creates the nodes of one manifest; errors are collected in `problems`."""

    def __init__(self, problems: Problems | None = None) -> None:
        self.problems = Problems() if problems is None else problems
        self._open: list[Any] = []
        self._status = 0
        self._done: dict[tuple[Any, bool], Node] = {}

    def resource(self, kind: type[Resource]) -> Node:
        """Return the schema of a kind, with apiVersion, kind and metadata."""
        origin = origin_of(kind)
        root = Node({"type": "object"}, origin, described_by_type=doc_of(kind))
        for name in ("apiVersion", "kind"):
            root.properties[name] = Node({"type": "string"}, origin)
        root.properties["metadata"] = Node({"type": "object"}, origin)
        for field in self._fields(kind, origin):
            if field.wire in ("apiVersion", "kind"):
                if _declares(kind, field.name):
                    self.problems.add(
                        field.origin, f"{field.wire} is a field of every object: remove it from the class"
                    )
                continue
            if field.wire == "metadata":
                if get_args(field.hint) or field.hint is not ObjectMeta:
                    self.problems.add(field.origin, "metadata must be ObjectMeta without markers: its rules are fixed")
                continue
            self._property(root, field, status=field.wire == "status")
        add_class_rules(root, kind, self.problems)
        add_immutables(root)
        check_cost(root, self.problems)
        return root

    def of(self, hint: Any, origin: Origin, *, item: bool = True) -> Node:
        """Return the schema of an annotation; `item` means a value of a list or map, which is not optional."""
        base, markers = unwrap(hint)
        if _flag(markers, "Schemaless"):
            node = Node(dict(_ANYTHING), origin)
        elif _flag(markers, "RawExtension"):
            node = Node({"type": "object", **_ANYTHING}, origin)
        elif _flag(markers, "Embedded"):
            node = self._embedded(base, origin)
        else:
            node = self._plain(base, markers, origin, item=item)
        apply_markers(node, markers, base, self.problems)
        return node

    def _plain(  # noqa: C901 - one line per kind of type
        self, base: Any, markers: Markers, origin: Origin, *, item: bool
    ) -> Node:
        args = get_args(base)
        kind = get_origin(base) or base
        if kind is Union or kind is UnionType:
            return self._union(args, markers, origin, item=item)
        if kind is Literal:
            return self._enum(list(args), origin)
        if kind is float and any(getattr(m, "name", "") in ("double", "float") for m in markers):
            return Node({"type": "number"}, origin)
        if kind in _REFUSED:
            self.problems.add(origin, _REFUSED[kind])
            return Node(dict(_ANYTHING), origin)
        if kind in _LEAVES:
            return Node(dict(_LEAVES[kind]), origin)
        if isinstance(kind, type):
            if issubclass(kind, enum.Enum):
                return self._enum([member.value for member in kind], origin)
            if issubclass(kind, _LISTS) and not hasattr(cast(Any, kind), "_fields"):
                return self._list(cast(Any, kind), args, origin)
            if issubclass(kind, Mapping):
                return self._map(args, origin)
            if has_fields(kind):
                return self._object(base, origin)
            for known in (str, int):
                if issubclass(kind, known):
                    return Node(dict(_LEAVES[known]), origin)
        if isinstance(kind, TypeVar):
            self.problems.add(origin, f"the type variable {kind} is open: parametrise the class, as in Box[str]")
        else:
            self.problems.add(origin, f"{_shown(base)} has no schema; use a Model, or Any to keep it unchecked")
        return Node(dict(_ANYTHING), origin)

    def _union(self, args: tuple[Any, ...], markers: Markers, origin: Origin, *, item: bool) -> Node:
        members = [a for a in args if a is not NoneType and a is not msgspec.UnsetType]
        optional = len(members) < len(args)
        nullable = _flag(markers, "Nullable")
        if optional and item and not nullable:
            self.problems.add(origin, "None inside a list or map: say Nullable[…] if null is meant, or leave it out")
        if len(members) == 1:
            return self.of(members[0], origin)
        if set(members) == {int, str}:
            return Node(dict(_INT_OR_STRING), origin)
        if all(get_origin(m) is Literal for m in members):
            return self._enum([value for m in members for value in get_args(m)], origin)
        if all(isinstance(m, type) and issubclass(m, msgspec.Struct) for m in members):
            return tagged_union(members, [self._object(m, origin) for m in members], origin, self.problems)
        names = " | ".join(_shown(m) for m in members)
        self.problems.add(origin, f"{names}: unions are of int and str, of literals, or of models with a tag")
        return Node(dict(_ANYTHING), origin)

    def _enum(self, values: list[Any], origin: Origin) -> Node:
        kinds: set[type] = {type(v) for v in values}
        if kinds == {str}:
            schema: dict[str, Any] = {"type": "string"}
        elif kinds == {int}:
            schema = {"type": "integer"}
        elif kinds == {bool}:
            schema = {"type": "boolean"}
        else:
            self.problems.add(origin, f"an enum holds strings, or whole numbers, not {values!r}")
            return Node(dict(_ANYTHING), origin)
        return Node({**schema, "enum": list(dict.fromkeys(values))}, origin)

    def _list(self, kind: type, args: tuple[Any, ...], origin: Origin) -> Node:
        node = Node({"type": "array"}, origin)
        if issubclass(kind, tuple) and args and not (len(args) == 2 and args[1] is Ellipsis):
            self.problems.add(origin, "a tuple of fixed length has no schema; write tuple[X, ...]")
        node.items = self.of(args[0] if args else Any, origin)
        if issubclass(kind, set | frozenset):
            node.keywords["x-kubernetes-list-type"] = "set"
        if unwrap(args[0])[0] is Condition if args else False:
            node.keywords |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        return node

    def _map(self, args: tuple[Any, ...], origin: Origin) -> Node:
        if not args:
            return Node({"type": "object", **_ANYTHING}, origin)
        key, markers = unwrap(args[0])
        if not (isinstance(key, type) and issubclass(key, str)) or issubclass(key, enum.Enum):
            self.problems.add(origin, f"keys of a map are str in JSON, not {_shown(key)}")
        if markers:
            self.problems.add(origin, "a schema cannot constrain keys; use CEL('self.all(key, …)') on the map")
        return Node({"type": "object"}, origin, values=self.of(args[1], origin))

    def _object(self, hint: Any, origin: Origin) -> Node:
        cls = cast("type[Any]", get_origin(hint) or hint)
        if issubclass(cls, ObjectMeta):
            return _pruned_metadata(origin)
        if hint in self._open:
            cycle = [*self._open[self._open.index(hint) :], hint]
            names = " -> ".join(_shown(c) for c in cycle)
            self.problems.add(origin, f"circular type {names}: mark one field Annotated[…, Schemaless]")
            return Node({"type": "object", **_ANYTHING}, origin)
        key = (hint, bool(self._status))
        made = self._done.get(key)
        if made is None:
            self._open.append(hint)
            before = len(self.problems)
            made = self._made(hint, cls)
            self._open.pop()
            if len(self.problems) == before:
                self._done[key] = made
        return copy_of(made, origin)

    def _made(self, hint: Any, cls: type[Any]) -> Node:
        node = Node({"type": "object"}, origin_of(cls))
        if not is_builtin(cls) or cls.__module__.startswith("steersman.k8s"):
            node.described_by_type = doc_of(cls)
        config = getattr(cls, "__struct_config__", None)
        if config is not None and config.tag is not None:
            value = {"type": "integer"} if isinstance(config.tag, int) else {"type": "string"}
            node.properties[config.tag_field] = Node({**value, "enum": [config.tag]}, node.origin)
        for field in self._fields(hint, node.origin):
            self._property(node, field)
        if is_builtin(cls):
            add_facts(node, cls, in_status=bool(self._status))
        add_class_rules(node, cls, self.problems)
        add_immutables(node)
        return node

    def _fields(self, hint: Any, origin: Origin) -> list[Field]:
        try:
            return fields_of_type(hint)
        except (NameError, TypeError, AttributeError) as problem:
            self.problems.add(origin, f"its annotations cannot be read: {problem}")
            return []

    def _property(self, node: Node, field: Field, *, status: bool = False) -> None:
        if field.wire in node.properties:
            self.problems.add(field.origin, f"the wire name {field.wire!r} is already taken")
            return
        self._status += status
        before = len(self.problems)
        child = self.of(field.hint, field.origin, item=False)
        self._status -= status
        child = child if child.origin == field.origin else copy_of(child, field.origin)
        if field.doc:
            child.keywords["description"] = field.doc
        node.properties[field.wire] = child
        node.names[field.name] = field.wire
        if len(self.problems) == before:  # the default of a refused type cannot be validated
            add_default(node, child, field, in_status=status or bool(self._status), problems=self.problems)

    def _embedded(self, base: Any, origin: Origin) -> Node:
        if isinstance(base, type) and issubclass(base, Resource):
            node = Node({"type": "object"}, origin)
            whole = copy_of(self.resource(base), origin)
            node.properties, node.names = whole.properties, whole.names
            node.rules, node.described_by_type = whole.rules, ""
            node.required = sorted({"apiVersion", "kind", *whole.required})
        elif base in (Any, object, Dynamic):
            node = Node({"type": "object", **_ANYTHING}, origin)
        else:
            self.problems.add(origin, f"Embedded[{_shown(base)}]: an embedded object is a Resource, or Any")
            return Node(dict(_ANYTHING), origin)
        node.keywords["x-kubernetes-embedded-resource"] = True
        return node


def _declares(kind: type[Resource], name: str) -> bool:
    """Return whether the body of a user's class declares a field; the metaclass declares these for all."""
    ours = (cls for cls in kind.__mro__ if not cls.__module__.startswith("steersman."))
    return any(name in source_of(cls).fields for cls in ours)


def _pruned_metadata(origin: Origin) -> Node:
    node = Node({"type": "object"}, origin)
    text = Node({"type": "string"}, origin)
    for name in ("name", "namespace"):
        node.properties[name] = text
    for name in ("labels", "annotations"):
        node.properties[name] = Node({"type": "object"}, origin, values=text)
    node.properties["finalizers"] = Node({"type": "array"}, origin, items=text)
    node.names = {name: name for name in node.properties}
    return node


def unwrap(hint: Any) -> tuple[Any, Markers]:
    """Return the type inside `Annotated[…]`, aliases and `NewType`s, and all markers, innermost first."""
    markers: Markers = ()
    while True:
        if get_origin(hint) is Annotated:
            inner, *outer = get_args(hint)
            hint, markers = inner, (*outer, *markers)
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        else:
            return hint, markers


def _flag(markers: Markers, name: str) -> bool:
    return any(isinstance(m, Flag) and m.name == name for m in markers)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
