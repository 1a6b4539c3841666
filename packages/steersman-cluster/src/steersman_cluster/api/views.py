"""Stored objects in the version, and the form, in which they are served."""

from __future__ import annotations

import copy
from typing import Any, Final, cast

import msgspec

from steersman_cluster.api.interfaces import ResourceType
from steersman_cluster.objects import Object, meta
from steersman_cluster.storage import Item
from steersman_cluster.strategy import Strategy

__all__ = ["body_of", "fields_of", "item_of_list", "object_of", "partial"]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_BASE: Final = Strategy.from_storage


def _as_stored(resource: ResourceType) -> bool:
    return type(resource.strategy).from_storage is _BASE


def object_of(resource: ResourceType, item: Item) -> Object:
    """The object in the version of `resource`, for the caller to keep."""
    if _as_stored(resource):
        return item.object()
    obj = item.object()
    if resource.converts and item.derived is not None and (kept := item.derived.get((resource, "converted"))):
        obj = copy.deepcopy(kept)
        obj["metadata"]["resourceVersion"] = str(item.revision)
    converted = resource.strategy.from_storage(obj)
    return _in_order(resource, converted)


def _in_order(resource: ResourceType, obj: Object) -> Object:
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


def body_of(resource: ResourceType, item: Item) -> bytes:
    """The JSON of the object in the version of `resource`; made once for each version of the object."""
    if _as_stored(resource):
        return item.value
    known = item.derived
    if known is None:
        known = item.derived = {}
    body = known.get(resource)
    if body is None:
        body = known[resource] = _encode(object_of(resource, item))
    return cast(bytes, body)


def item_of_list(resource: ResourceType, item: Item) -> bytes:
    """Return an object as a list item: built-in kinds omit apiVersion and kind."""
    body = body_of(resource, item)
    if resource.definition is not None:
        return body
    prefix = b'{"kind":"%s","apiVersion":"%s",' % (resource.kind.encode(), resource.api_version.encode())
    return b"{" + body[len(prefix) :] if body.startswith(prefix) else body


def fields_of(resource: ResourceType, item: Item) -> dict[str, str]:
    """Return the fields of an object that field selectors can use."""
    known = item.derived
    if known is None:
        known = item.derived = {}
    found = known.get((resource, "fields"))
    if found is None:
        found = {"metadata.name": item.name, "metadata.namespace": item.namespace}
        if resource.strategy.selectable:
            written = item.written if _as_stored(resource) else None
            found.update(resource.strategy.fields(object_of(resource, item) if written is None else written))
        known[resource, "fields"] = found
    return cast("dict[str, str]", found)


def partial(obj: Object) -> Object:
    """An object's metadata alone (`PartialObjectMetadata`)."""
    metadata: Any = meta(obj)
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
