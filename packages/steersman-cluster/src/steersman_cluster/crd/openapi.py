"""The published OpenAPI v3 of a custom resource: schemas and paths, for `kubectl explain` and for clients.

The schema is the definition's own, with apiVersion, kind and metadata as everywhere and the kind's name on it. Where
unknown fields are preserved everywhere, no structure is published. Nothing here is used to check anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.objects import Object, dig

__all__ = ["definition_name", "published_schema", "published_schemas", "second_version"]

_KINDS = "x-kubernetes-group-version-kind"
_NOT_IN_SECOND = frozenset(("allOf", "anyOf", "default", "not", "nullable", "oneOf"))
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_METADATA = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_LIST_METADATA = (
    "Standard list metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)


def definition_name(group: str, version: str, kind: str) -> str:
    """The name of a kind's schema: the group reversed, the version, the kind (`com.example.v1.Thing`)."""
    return f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"


def published_schema(definition: Object, version: Object) -> Object:
    """The schema of one version's objects as it is published."""
    spec = cast(Object, definition["spec"])
    schema = cast("Schema | None", dig(version, "schema", "openAPIV3Schema"))
    open_ended = spec.get("preserveUnknownFields") is True or not schema
    published: Object = {"type": "object"} if open_ended else _unfolded(cast(Object, schema))
    properties = dict(cast("Mapping[str, Any]", published.get("properties") or {}))
    properties["apiVersion"] = {"type": "string", "description": _API_VERSION}
    properties["kind"] = {"type": "string", "description": _KIND}
    properties["metadata"] = _reference("ObjectMeta", _METADATA)
    published["properties"] = properties
    published[_KINDS] = [_gvk(spec, version, spec["names"]["kind"])]
    return published


_INT_OR_STRING: list[Object] = [{"type": "integer"}, {"type": "string"}]


def _unfolded(schema: Object) -> Object:
    """Return a copy of a schema in which int-or-string fields are expressed with `anyOf`, as in OpenAPI."""
    made = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(inner := made.get(key), dict):
            made[key] = _unfolded(cast(Object, inner))
    if isinstance(properties := made.get("properties"), dict):
        made["properties"] = {name: _unfolded(field) for name, field in cast("dict[str, Object]", properties).items()}
    if made.get("x-kubernetes-int-or-string") is True:
        all_of = cast("list[Object]", made.get("allOf") or [])
        if not made.get("anyOf"):
            if not (all_of and all_of[0].get("anyOf") == _INT_OR_STRING):
                made["anyOf"] = list(_INT_OR_STRING)
        elif made["anyOf"] != _INT_OR_STRING:
            made["allOf"] = [{"anyOf": list(_INT_OR_STRING)}, *all_of]
    return made


def published_schemas(definition: Object, version: Object) -> dict[str, Object]:
    """The schemas of one version by name: the object's and its list's."""
    spec = cast(Object, definition["spec"])
    names = cast(Object, spec["names"])
    group, name = cast(str, spec["group"]), cast(str, version["name"])
    kind = cast(str, names["kind"])
    list_kind = cast(str, names.get("listKind") or f"{kind}List")
    own = definition_name(group, name, kind)
    of_list: Object = {
        "description": f"{list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "items": {
                "description": f"List of {names['plural']}. More info: "
                "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                "type": "array",
                "items": {"$ref": f"#/components/schemas/{own}"},
            },
            "kind": {"type": "string", "description": _KIND},
            "metadata": _reference("ListMeta", _LIST_METADATA),
        },
        _KINDS: [_gvk(spec, version, list_kind)],
    }
    return {own: published_schema(definition, version), definition_name(group, name, list_kind): of_list}


def second_version(published: Object) -> Object:
    """A published schema without what OpenAPI version 2 and its readers do not support.

    An object that keeps unknown fields is published without its fields; kubectl would refuse unknown ones.
    """
    if published.get("x-kubernetes-preserve-unknown-fields") is True:
        return {"type": "object", _KINDS: published[_KINDS]}
    return _without_unsupported(published)


def _without_unsupported(schema: Object) -> Object:
    made = {key: value for key, value in schema.items() if key not in _NOT_IN_SECOND}
    open_ended = made.get("x-kubernetes-preserve-unknown-fields") is True
    if open_ended or schema.get("nullable") is True:
        made.pop("items", None)
        made.pop("properties", None)
    untyped = schema.get("nullable") is True or (open_ended and made.get("type") == "object")
    if untyped or (made.get("type") == "array" and "items" not in made):
        made.pop("type", None)
    for key in ("items", "additionalProperties"):
        if isinstance(inner := made.get(key), dict):
            made[key] = _without_unsupported(cast(Object, inner))
    if isinstance(properties := made.get("properties"), dict):
        fields = cast("dict[str, Object]", properties)
        nullable = {name for name, field in fields.items() if field.get("nullable") is True}
        if required := [name for name in cast("list[str]", made.pop("required", [])) if name not in nullable]:
            made["required"] = required
        # References are kept whole: they are changed with everything else of their documents.
        made["properties"] = {
            name: field if "allOf" in field and len(field) <= 2 else _without_unsupported(field)
            for name, field in fields.items()
        }
    return made


def _gvk(spec: Object, version: Object, kind: str) -> Object:
    return {"group": spec["group"], "version": version["name"], "kind": kind}


def _reference(name: str, description: str) -> Object:
    return {"allOf": [{"$ref": f"#/components/schemas/{_META}.{name}"}], "description": description}
