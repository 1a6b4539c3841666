"""The strategy of the kind CustomResourceDefinition itself: defaults, stored versions, status isolation, columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from steersman_cluster.cel.formats import known
from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.crd.definition_rules import validate_definition, validate_definition_update
from steersman_cluster.crd.lifecycle import stored_versions
from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.errors import FieldError
from steersman_cluster.kinds import columns as cells
from steersman_cluster.objects import Object, dig, meta
from steersman_cluster.strategy import Column, Strategy, WriteContext

__all__ = ["DefinitionStrategy"]


class DefinitionStrategy(Strategy):
    """CustomResourceDefinition, apiextensions.k8s.io/v1. Its status is settled by `lifecycle` after each write."""

    generation = True
    has_status = True
    unconditional_update = False
    columns: tuple[Column, ...] = (
        cells.NAME,
        Column("Created At", "date", description=cells.AGE_TEXT),
    )

    def default(self, obj: Object) -> None:
        """Singular and list kind from the kind, no conversion, port 443 of webhooks."""
        spec = cast(Object, obj.get("spec") or {})
        names = cast(Object, spec.get("names") or {})
        kind = names.get("kind")
        if kind:
            if not names.get("singular"):
                names["singular"] = kind.lower()
            if not names.get("listKind"):
                names["listKind"] = f"{kind}List"
        if "spec" in obj:
            conversion = cast(Object, spec.get("conversion") or {"strategy": "None"})
            spec["conversion"] = conversion
            service = dig(conversion, "webhook", "clientConfig", "service")
            if isinstance(service, dict):
                cast(Object, service).setdefault("port", 443)
            for version in cast("list[Object]", spec.get("versions") or []):
                version.setdefault("served", False)
                version.setdefault("storage", False)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        """A status with nothing but the stored version."""
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored_versions({"spec": obj.get("spec")}),
        }
        meta(obj)["generation"] = 1

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        """Keep the status and record a new storage version; the subresource `status` keeps the spec."""
        if ctx.subresource == "status":
            obj["spec"] = old["spec"]
            return
        obj["status"] = dict(cast(Object, old.get("status") or {}))
        obj["status"]["storedVersions"] = stored_versions(obj)
        count = meta(old).get("generation") or 0
        meta(obj)["generation"] = count + (obj.get("spec") != old.get("spec"))

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a new definition."""
        return validate_definition(obj)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        """Return the errors of a changed definition."""
        return validate_definition_update(obj, old, status_only=ctx.subresource == "status")

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        """Return warnings for new formats that are not validated."""
        if ctx.subresource:
            return ()
        before = set(_unknown_formats(old)) if old is not None else set[str]()
        return [f"unrecognized format {go_quote(name)}" for name in _unknown_formats(obj) if name not in before]

    def row(self, obj: Object, now: float) -> list[Any]:
        """Return the row of a table: name and creation time."""
        return [meta(obj).get("name") or "", meta(obj).get("creationTimestamp")]


def _unknown_formats(definition: Object) -> list[str]:
    found: list[str] = []
    for version in cast("list[Object]", dig(definition, "spec", "versions", default=[])):
        schema = dig(version, "schema", "openAPIV3Schema")
        if isinstance(schema, Mapping):
            for node in _nodes(cast(Schema, schema)):
                shape, kind = node.get("format"), node.get("type") or ""
                if shape and not known(kind, cast(str, shape)):
                    found.append(cast(str, shape))
    return found


def _nodes(schema: Schema) -> Iterator[Schema]:
    yield schema
    for name in ("properties", "patternProperties", "definitions"):
        for node in cast("Mapping[str, Schema]", schema.get(name) or {}).values():
            yield from _nodes(node)
    for name in ("items", "additionalProperties", "not"):
        node = schema.get(name)
        if isinstance(node, Mapping):
            yield from _nodes(cast(Schema, node))
    for name in ("allOf", "anyOf", "oneOf"):
        for node in cast("Sequence[Schema]", schema.get(name) or ()):
            yield from _nodes(node)
