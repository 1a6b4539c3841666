"""Pruning, nulls and defaults of custom resources: one closure per schema, one pass per object, in place.

Three rules in the API server's order: fields that the schema does not declare are removed unless preserved; a null is
removed if the field is not nullable and has no default; an absent field, or such a null, gets its default, including
defaults inside of defaults. The apiVersion, kind and metadata of resources are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.objects import Object

__all__ = ["Shape", "compile_shape", "copy_json", "prune"]

Shape: TypeAlias = Callable[[Any], None]
"""Changes a value in place; scalars are left alone."""

_TYPE_META = frozenset(("apiVersion", "kind", "metadata"))


def copy_json(value: Any) -> Any:
    """A deep copy of decoded JSON."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [copy_json(item) for item in cast("list[Any]", value)]
    return value


def compile_shape(schema: Schema, *, root: bool = True) -> Shape:
    """Return the pass over an object of this schema; `root` marks a whole resource."""
    shape = _compile(schema, embedded=root)
    return shape or _nothing


def prune(schema: Schema, value: Any, *, root: bool = True) -> None:
    """Remove undeclared fields in place, without setting defaults."""
    shape = _compile(schema, embedded=root, defaults=False)
    if shape is not None:
        shape(value)


def _nothing(value: Any) -> None:
    pass


def _empty(value: Any) -> None:
    """Return the pass without a schema: objects lose all fields."""
    if isinstance(value, dict):
        cast(Object, value).clear()
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _empty(item)


def _compile(  # noqa: C901
    schema: Schema, *, embedded: bool = False, defaults: bool = True, below: bool = False
) -> Shape | None:
    """`None` where there is nothing to do. `below` is inside of a preserving node, where the unknown stays."""
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") is True or below
    embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
    items = schema.get("items")
    # A preserved list hands its permission on to its items; objects do not.
    each = _compile(cast(Schema, items), defaults=defaults, below=preserve) if isinstance(items, Mapping) else None
    if not isinstance(items, Mapping) and not preserve:
        each = _empty
    node = _Map(schema, preserve=preserve, embedded=embedded, defaults=defaults)
    spare: Any = cast(Schema, items).get("default") if defaults and isinstance(items, Mapping) else None
    nullable = isinstance(items, Mapping) and cast(Schema, items).get("nullable") is True
    of_list = schema.get("type") == "array"
    of_scalar = schema.get("type") in ("string", "integer", "number", "boolean")
    if of_scalar or schema.get("x-kubernetes-int-or-string") is True:
        # A value of the wrong type is pruned before it is refused, which has no visible effect.
        return None
    if of_list and each is None and (spare is None or nullable):
        return None

    def shape(value: Any) -> None:
        if type(value) is dict:
            node(cast(Object, value))
        elif type(value) is list:
            values = cast("list[Any]", value)
            if spare is not None and not nullable:
                for index, item in enumerate(values):
                    if item is None:
                        values[index] = copy_json(spare)
            if each is not None:
                for item in values:
                    each(item)

    return node.run if not of_list and schema.get("type") == "object" else shape


class _Map:
    """The pass over an object or a map."""

    def __init__(self, schema: Schema, *, preserve: bool, embedded: bool, defaults: bool) -> None:
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        more = schema.get("additionalProperties")
        self.preserve = preserve
        self.embedded = embedded
        self.open = more is not None and more is not False
        self.names: frozenset[str] = frozenset(properties) | (_TYPE_META if embedded else frozenset[str]())
        self.children: dict[str, Shape] = {}
        for name, node in properties.items():
            if embedded and name in _TYPE_META:
                continue
            child = _compile(node, defaults=defaults)
            if child is not None:
                self.children[name] = child
        self.defaults = {
            name: node["default"]
            for name, node in properties.items()
            if defaults and node.get("default") is not None and not (embedded and name in _TYPE_META)
        }
        self.nullable = frozenset(name for name, node in properties.items() if node.get("nullable") is True)
        self.rest: Shape | None = None
        self.rest_default: Any = None
        self.rest_nullable = True
        if isinstance(more, Mapping):
            node = cast(Schema, more)
            self.rest = _compile(node, defaults=defaults)
            self.rest_default = node.get("default") if defaults else None
            self.rest_nullable = node.get("nullable") is True
        elif more is True and not preserve:
            self.rest = _empty
        self.nulls = defaults

    def run(self, value: Any) -> None:
        if type(value) is dict:
            self(cast(Object, value))

    def __call__(self, values: Object) -> None:  # noqa: C901
        if not self.preserve and not self.open and not values.keys() <= self.names:
            for name in values.keys() - self.names:
                del values[name]
        if self.nulls and None in values.values():
            self._nulls(values)
        for name, default in self.defaults.items():
            if name not in values:
                values[name] = copy_json(default)
        for name, child in self.children.items():
            found = values.get(name)
            if found is not None:
                child(found)
        if self.rest is not None:
            for name, item in values.items():
                if name not in self.names:
                    self.rest(item)

    def _nulls(self, values: Object) -> None:
        for name in [name for name, item in values.items() if item is None]:
            if self.embedded and name in _TYPE_META:
                continue
            if name in self.names:
                if name in self.nullable:
                    continue
                if name in self.defaults:
                    values[name] = copy_json(self.defaults[name])
                else:
                    del values[name]
            elif self.open and not self.rest_nullable:
                if self.rest_default is not None:
                    values[name] = copy_json(self.rest_default)
                else:
                    del values[name]
