"""The structural type of an object: what merges, managed fields and decoding need to know of its shape.

A `Type` says whether a value is a map (a struct has known fields), a list (atomic, set, or map by keys), a scalar or
anything; how a strategic patch merges it; and how Go prints and empties it. Types are lazy and shared, refer to each
other freely (recursion), and never change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

from steersman_cluster.objects import Object

__all__ = ["ANY", "ATOMIC_ANY", "Emptiness", "Form", "ListType", "References", "Type", "from_openapi"]

Form: TypeAlias = Literal["map", "list", "scalar", "any"]
ListType: TypeAlias = Literal["atomic", "set", "map"]
Emptiness: TypeAlias = Literal["", "drop", "nil", "keep", "keep-nil"]
References: TypeAlias = Callable[[str], "Type"]
"""Finds the type that a `$ref` names (its last path segment)."""

_NO_FIELDS: Mapping[str, Type] = {}
_SPECIAL_STRINGS = {"byte": "bytes", "date-time": "time"}


class Type:
    """The type of one value. Immutable; compared by identity, so that types may be recursive.

    `form` is `map` (with `fields`, and `element` for other keys), `list` (of `element`), `scalar`, or `any` (whatever
    the value is; its maps are granular and its lists atomic, unless `atomic`).
    """

    form: Form
    scalar: str
    """string, integer, int32, int64, number, boolean, bytes, time, micro-time, quantity, int-or-string; "" is any."""
    atomic: bool
    """Owned and replaced as a whole: atomic maps, and the values in atomic lists."""
    list_type: ListType
    keys: tuple[str, ...]
    """The names that identify an item of a list of type `map`."""
    name: str
    """Go's name with its package, as error texts show it: `v1.PodSpec`; "" for what CRDs define."""
    merge_key: str
    merge: bool
    """Whether a strategic patch merges this list or map: maps by default, lists only with a patch strategy."""
    replace: bool
    """Whether a strategic patch replaces this value as a whole."""
    nullable: bool
    default: Any
    has_default: bool
    empty: Emptiness
    """The encoding of the empty value by Go: drop it, drop only null, or keep it; "" for custom resources."""
    embedded: str
    """The path of embedded Go structs before this field, as error texts show it: `VolumeSource`."""
    memo: dict[str, Any]
    """Values that other modules derive from this type and cache with it."""

    def __init__(
        self,
        node: Mapping[str, Any],
        references: References,
        *,
        preserve: bool = False,
        target: Callable[[], Type] | None = None,
        form: Form | None = None,
        scalar: str = "",
    ) -> None:
        self._node = node
        self._references = references
        self._target = target
        kind = node.get("type", "")
        self._preserve = preserve or node.get("x-kubernetes-preserve-unknown-fields") is True
        self.form = form or _form(node, kind)
        self.scalar = scalar or (_scalar(node, kind) if self.form == "scalar" else "")
        self.list_type, self.keys = _list_type(node)
        map_type = node.get("x-kubernetes-map-type")
        self.atomic = map_type == "atomic" if self.form != "list" else self.list_type == "atomic"
        self.name = cast(str, node.get("go", ""))
        strategy = cast(str, node.get("x-kubernetes-patch-strategy", "")).split(",")
        self.merge = "merge" in strategy
        self.replace = "replace" in strategy
        self.merge_key = cast(str, node.get("x-kubernetes-patch-merge-key", ""))
        self.nullable = node.get("nullable") is True
        self.has_default = "default" in node
        self.default = node.get("default")
        self.empty: Emptiness = node.get("empty") or ""
        self.embedded = cast(str, node.get("embedded", ""))
        self.memo = {}
        if target is not None:
            self._adopt(target(), map_type)

    def _adopt(self, target: Type, map_type: str | None) -> None:
        """Take the shape of what a `$ref` names; patch and list properties stay the field's own."""
        self.form, self.scalar = target.form, target.scalar
        self.name = self.name or target.name
        if map_type is None:
            self.atomic = target.atomic
        if target.form == "list":
            self.list_type, self.keys = target.list_type, target.keys

    @cached_property
    def fields(self) -> Mapping[str, Type]:
        """The known fields of a struct, by JSON name; empty for maps and all else."""
        if self._target is not None:
            return self._target().fields
        properties = cast("Mapping[str, Any]", self._node.get("properties") or {})
        if not properties:
            return _NO_FIELDS
        return {
            name: from_openapi(node, self._references, preserve=self._preserve) for name, node in properties.items()
        }

    @cached_property
    def element(self) -> Type | None:
        """The type of a list's items, or of a map's values beyond `fields`; `None` where there must be none."""
        if self._target is not None:
            return self._target().element
        node = self._node
        if self.form == "list":
            items = node.get("items")
            if not isinstance(items, Mapping):
                return ATOMIC_ANY
            return from_openapi(cast("Mapping[str, Any]", items), self._references, preserve=self._preserve)
        if self.form == "scalar":
            return None
        more = node.get("additionalProperties")
        if isinstance(more, Mapping):
            return from_openapi(cast("Mapping[str, Any]", more), self._references, preserve=self._preserve)
        if more is True:
            return ANY
        if more is False:
            return None
        return ANY if self._preserve or not node.get("properties") else None

    @cached_property
    def item(self) -> Type:
        """The type of the items where this is a list, or where a value of any type turns out to be one."""
        if self.form == "list":
            return self.element or ATOMIC_ANY
        return ATOMIC_ANY

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The fields of a struct that have a default, and those."""
        return {name: field.default for name, field in self.fields.items() if field.has_default}

    def child(self, key: str) -> Type | None:
        """The type of a map's entry; `None` where the field is unknown."""
        return self.fields.get(key) or self.element

    def __repr__(self) -> str:
        what = self.scalar if self.form == "scalar" else self.form
        return f"<Type {self.name or what}>"


def _form(node: Mapping[str, Any], kind: str) -> Form:
    if node.get("x-kubernetes-int-or-string") is True or node.get("format") == "int-or-string":
        return "scalar"
    match kind:
        case "object":
            return "map"
        case "array":
            return "list"
        case "string" | "integer" | "number" | "boolean":
            return "scalar"
        case _:
            return "any"


def _scalar(node: Mapping[str, Any], kind: str) -> str:
    shape = node.get("format")
    if node.get("x-kubernetes-int-or-string") is True or shape == "int-or-string":
        return "int-or-string"
    if kind == "string":
        return _SPECIAL_STRINGS.get(cast(str, shape), "string") if "go" in node or shape == "byte" else "string"
    if kind == "integer":
        return cast(str, shape) if shape in ("int32", "int64") else "integer"
    return kind


def _list_type(node: Mapping[str, Any]) -> tuple[ListType, tuple[str, ...]]:
    match node.get("x-kubernetes-list-type"):
        case "map":
            return "map", tuple(cast("Sequence[str]", node.get("x-kubernetes-list-map-keys") or ()))
        case "set":
            return "set", ()
        case "atomic":
            return "atomic", ()
        case _:
            pass
    # Types from before list types say it by their patch strategy.
    if "merge" in cast(str, node.get("x-kubernetes-patch-strategy", "")).split(","):
        key = cast(str, node.get("x-kubernetes-patch-merge-key", ""))
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()


def _no_references(name: str) -> Type:
    raise KeyError(name)


def from_openapi(node: Mapping[str, Any], references: References = _no_references, *, preserve: bool = False) -> Type:
    """The type of an OpenAPI v3 schema: a built-in kind's or a CRD's structural schema.

    `references` resolves `$ref`s, also those wrapped into a single `allOf`, when they are needed. `preserve` keeps
    unknown fields here and below, as `x-kubernetes-preserve-unknown-fields` does. Malformed schemas give `any`.
    """
    reference = node.get("$ref")
    wrapped = node.get("allOf")
    if reference is None and isinstance(wrapped, Sequence) and len(cast("Sequence[Any]", wrapped)) == 1:
        reference = cast("Sequence[Mapping[str, Any]]", wrapped)[0].get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        return Type(node, references, target=lambda: references(name))
    return Type(node, references, preserve=preserve)


_EMPTY: Object = {}
ANY = Type(_EMPTY, _no_references, form="any")
"""Whatever the value is: maps are granular, lists atomic."""
ATOMIC_ANY = Type({"x-kubernetes-map-type": "atomic"}, _no_references, form="any")
"""Whatever the value is, owned as one."""
