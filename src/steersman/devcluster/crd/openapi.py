"""The published OpenAPI v3 of a custom resource: schemas and paths, for `kubectl explain` and for clients.

The schema is the definition's own, with apiVersion, kind and metadata as everywhere and the kind's name on it. Where
unknown fields are preserved everywhere, no structure is published. Nothing here is used to check anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from steersman.devcluster.crd.checking import Schema
from steersman.devcluster.objects import Object, dig

__all__ = ["definition_name", "published_schema", "published_schemas"]

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
    published: Object = {"type": "object"} if open_ended else dict(cast(Schema, schema))
    if published.get("x-kubernetes-preserve-unknown-fields") is not True or published.get("properties"):
        properties = dict(cast("Mapping[str, Any]", published.get("properties") or {}))
        properties["apiVersion"] = {"type": "string", "description": _API_VERSION}
        properties["kind"] = {"type": "string", "description": _KIND}
        properties["metadata"] = _reference("ObjectMeta", _METADATA)
        published["properties"] = properties
    published["x-kubernetes-group-version-kind"] = [_gvk(spec, version, spec["names"]["kind"])]
    return published


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
        "x-kubernetes-group-version-kind": [_gvk(spec, version, list_kind)],
    }
    return {own: published_schema(definition, version), definition_name(group, name, list_kind): of_list}


def _gvk(spec: Object, version: Object, kind: str) -> Object:
    return {"group": spec["group"], "version": version["name"], "kind": kind}


def _reference(name: str, description: str) -> Object:
    return {"allOf": [{"$ref": f"#/components/schemas/{_META}.{name}"}], "description": description}
