"""The strategy of one version of a custom resource, compiled from its definition.

Built from a CustomResourceDefinition that was accepted, and never changed; a changed definition gives new strategies.
The common write of a valid object runs three closures (shape, check, rules) and makes no copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from steersman_cluster.cel.gotext import go_float, go_value
from steersman_cluster.crd.correlation import ABSENT
from steersman_cluster.crd.embedded import compile_embedded
from steersman_cluster.crd.jsonpath import find
from steersman_cluster.crd.list_types import Walk, compile_lists
from steersman_cluster.crd.pruning import compile_shape
from steersman_cluster.crd.rules import Rules, compile_rules
from steersman_cluster.crd.scale import ScalePaths
from steersman_cluster.crd.schema_errors import explain
from steersman_cluster.crd.schema_validation import Schema, compile_check
from steersman_cluster.errors import ErrorType, FieldError
from steersman_cluster.kinds import columns as cells
from steersman_cluster.kinds import formats
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, Strategy, WriteContext

__all__ = ["CustomStrategy"]

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_BLOCKING = {
    ErrorType.NOT_SUPPORTED,
    ErrorType.REQUIRED,
    ErrorType.TOO_LONG,
    ErrorType.TOO_MANY,
    ErrorType.TYPE_INVALID,
}
_UNCHECKED = FieldError(
    ErrorType.INVALID,
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "null",
)
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_ROOT = Path("")


class CustomStrategy(Strategy):
    """Defaulting, pruning, validation, status isolation, scale, columns and selectable fields of one version."""

    generation = True
    unconditional_update = False

    def __init__(self, definition: Object, version: Object) -> None:
        spec = cast(Object, definition["spec"])
        names = cast(Object, spec["names"])
        self.group = cast(str, spec["group"])
        self.version = cast(str, version["name"])
        self.kind = cast(str, names["kind"])
        schema = cast("Schema | None", dig(version, "schema", "openAPIV3Schema"))
        preserve_all = spec.get("preserveUnknownFields") is True
        self.schema: Schema = schema or _ANYTHING
        shaped = {**self.schema, "x-kubernetes-preserve-unknown-fields": True} if preserve_all else self.schema
        self._shape = compile_shape(shaped)
        self._check = compile_check(self.schema)
        self._status_schema = cast("Schema | None", dig(dict(self.schema), "properties", "status"))
        self._check_status = compile_check(self._status_schema) if self._status_schema else None
        self._lists: Walk | None = compile_lists(self.schema)
        self._embedded: Walk | None = compile_embedded(self.schema)
        self.rules: Rules | None = compile_rules(self.schema)
        subresources = cast(Object, version.get("subresources") or {})
        self.has_status = subresources.get("status") is not None
        self.scale = _scale(subresources.get("scale"))
        self.deprecation = _deprecation(version, self.group, self.kind)
        """The text of the `Warning` that every request of this version gets; "" where it is not deprecated."""
        self._columns = _column_paths(version)
        self.columns = tuple(column for column, _ in self._columns)
        fields = cast("Sequence[Mapping[str, str]]", version.get("selectableFields") or ())
        self._fields = {field["jsonPath"].removeprefix("."): field["jsonPath"] for field in fields}
        self.selectable = tuple(self._fields)
        self.api_version = f"{self.group}/{self.version}"

    def default(self, obj: Object) -> None:
        """Prune what the schema does not know, drop nulls, fill in defaults."""
        self._shape(obj)

    def from_storage(self, obj: Object) -> Object:
        """To this version where the definition has no converter, with defaults that the stored form may lack."""
        obj["apiVersion"] = self.api_version
        self._shape(obj)
        return obj

    def to_storage(self, obj: Object) -> Object:
        """Return the object unchanged: the stored form has the version of the request."""
        return obj

    def content(self, obj: Object) -> Any:
        """Return all fields but metadata, and status if it is a subresource."""
        dropped = (
            ("metadata", "status", "apiVersion", "kind") if self.has_status else ("metadata", "apiVersion", "kind")
        )
        return {key: value for key, value in obj.items() if key not in dropped}

    def isolate_status(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """A write to /status changes nothing but status; any other keeps it."""
        if ctx.subresource != "status":
            super().isolate_status(obj, old, ctx)
            return
        status, given = obj.get("status"), "status" in obj
        metadata = dict(meta(old))
        if "managedFields" in meta(obj):
            metadata["managedFields"] = meta(obj)["managedFields"]
        if "resourceVersion" in meta(obj):
            metadata["resourceVersion"] = meta(obj)["resourceVersion"]
        obj.clear()
        obj.update(old)
        obj["metadata"] = metadata
        obj.pop("status", None)
        if given:
            obj["status"] = status

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Isolate the status; the generation counts changes of `content` outside of subresources."""
        if self.has_status:
            self.isolate_status(obj, old, ctx)
        count = meta(old).get("generation") or 0
        if ctx.subresource != "status" and self.content(obj) != self.content(old):
            count += 1
        if count:
            meta(obj)["generation"] = count

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        """Schema, scale, embedded resources, lists, then rules, as far as the object is well enough to run them."""
        found = [] if self._check(obj) else explain(self.schema, obj)
        if self.scale is not None:
            found += self.scale.validate(obj)
        self._walk(obj, found)
        return self._run_rules(obj, ABSENT, found)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Validate as on create, without the errors that the old object has as well (ratcheting)."""
        if ctx.subresource == "status":
            return self._validate_status(obj, old)
        found = [] if self._check(obj) else explain(self.schema, obj, old=old)
        if self.scale is not None:
            found += self.scale.validate(obj)
        self._walk(obj, found, old)
        return self._run_rules(obj, old, found)

    def _validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        status = obj.get("status")
        if self._check_status is not None and "status" in obj and not self._check_status(status):
            before = old.get("status", ABSENT)
            found += explain(cast(Schema, self._status_schema), status, old=before, prefix="status")
        if self.scale is not None:
            found += self.scale.validate(obj, spec=False)
        self._walk(obj, found, old, embedded=False)
        return self._run_rules(obj, old, found)

    def _walk(self, obj: Object, found: list[FieldError], old: Object | None = None, *, embedded: bool = True) -> None:
        if embedded and self._embedded is not None:
            self._embedded(_ROOT, obj, found)
        if self._lists is not None:
            wrong: list[FieldError] = []
            self._lists(_ROOT, obj, wrong)
            if wrong and old is not None:
                before: list[FieldError] = []
                self._lists(_ROOT, old, before)
                if before:
                    return
            found += wrong

    def _run_rules(self, obj: Object, old: Any, found: list[FieldError]) -> list[FieldError]:
        if self.rules is not None:
            if any(error.type in _BLOCKING for error in found):
                found.append(_UNCHECKED)
            else:
                found += self.rules.validate(obj, old)
        return found

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        """Finalizers without a domain."""
        added = cast("list[str]", meta(obj).get("finalizers") or [])
        if not added or ctx.subresource == "status":
            return ()
        known = set(cast("list[str]", meta(old).get("finalizers") or [])) if old is not None else set[str]()
        found: list[str] = []
        for name in sorted(set(added) - known):
            found += [f"metadata.finalizers: {go_value(name)}: {text}" for text in formats.label_key(name)]
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in name else ""
                found.append(
                    f"metadata.finalizers: {go_value(name)}: prefer a domain-qualified finalizer name{path} "
                    "to avoid accidental conflicts with other finalizer writers"
                )
        return found

    def fields(self, obj: Object) -> Mapping[str, str]:
        """The selectable fields of the definition; "" where the object has none."""
        found: dict[str, str] = {}
        for name, path in self._fields.items():
            values = find(path, obj)
            found[name] = _text(values[0]) if values and values[0] is not None else ""
        return found

    def row(self, obj: Object, now: float) -> list[Any]:
        """The cells of the printer columns."""
        return [meta(obj).get("name") or "", *(_cell(column, path, obj, now) for column, path in self._columns[1:])]


def _scale(node: Any) -> ScalePaths | None:
    if not isinstance(node, Mapping):
        return None
    paths = cast("Mapping[str, str]", node)
    return ScalePaths(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or "")


def _deprecation(version: Object, group: str, kind: str) -> str:
    if version.get("deprecated") is not True:
        return ""
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


def _column_paths(version: Object) -> tuple[tuple[Column, str], ...]:
    """The columns and the JSONPath of each; an age where the definition names none."""
    found: list[tuple[Column, str]] = [(cells.NAME, "")]
    defined = cast("Sequence[Object]", version.get("additionalPrinterColumns") or ())
    if not defined:
        age = Column("Age", "date", "", cells.AGE_TEXT, 0)
        return (*found, (age, ".metadata.creationTimestamp"))
    for column in defined:
        path = cast(str, column["jsonPath"])
        text = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        found.append(
            (
                Column(column["name"], column["type"], column.get("format") or "", text, column.get("priority") or 0),
                path,
            )
        )
    return tuple(found)


def _cell(column: Column, path: str, obj: Object, now: float) -> Any:
    values = find(path, obj)
    if not values:
        return None
    value = values[0]
    if column.type == "string":
        return _printed(value)
    if value is None:
        return None
    match column.type, value:
        case ("boolean", bool()):
            return value
        case (_, bool()):
            return None
        case ("integer", int() | float()):
            return int(value)
        case ("number", int() | float()):
            return float(value) if isinstance(value, float) else value
        case ("date", str()):
            return _age(value, now)
        case _:
            return None


def _age(value: str, now: float) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    if moment.tzinfo is None:
        return "<invalid>"
    return cells.duration(now - moment.astimezone(UTC).timestamp())


def _text(value: Any) -> str:
    """As Go's fmt.Sprint prints a scalar."""
    return go_float(value) if isinstance(value, float) else value if isinstance(value, str) else go_value(value)


def _printed(value: Any) -> str:
    """As kubectl's JSONPath printer shows a value in a column of strings."""
    if value is None:
        return ""
    return _text(value)
