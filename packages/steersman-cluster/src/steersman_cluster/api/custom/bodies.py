"""Bodies of custom resources: unknown fields of structural schemas, and the canonical form of other values.

Unknown fields are reported here and pruned by the strategy. Metadata is decoded as that of built-in kinds. Follows
apiextensions' pruning and its schema-coercing decoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from steersman_cluster import schema
from steersman_cluster.api.interfaces import ResourceType
from steersman_cluster.crd import CustomStrategy
from steersman_cluster.objects import Object

__all__ = ["decode_custom", "integers"]

_TYPE_META: Final = ("apiVersion", "kind", "metadata")
_MAX_UNKNOWN_FIELDS: Final = 100
_META: Final = schema.builtin("", "v1", "Namespace")


def decode_custom(obj: Object, resource: ResourceType, *, telling: bool) -> schema.Decoded:
    """Decode the metadata of a custom resource in place; find its unknown fields if `telling` is set."""
    metadata = obj.get("metadata")
    found: list[str] = []
    if metadata is not None:
        # Any built-in kind will do: only metadata is looked at.
        holder: Object = {"metadata": metadata}
        decoded = schema.decode(holder, _META)
        if decoded.mismatch:
            return decoded
        obj["metadata"] = holder["metadata"]
        found += decoded.unknown
    if telling and resource.definition is not None:
        shape = _shape(resource)
        if shape is not None:
            paths: list[str] = []
            _unknown(obj, shape, "", paths, root=True)
            found += [f"unknown field {json.dumps(path, ensure_ascii=False)}" for path in sorted(paths)]
    return schema.Decoded(tuple(found[:_MAX_UNKNOWN_FIELDS]))


def _shape(resource: ResourceType) -> Mapping[str, Any] | None:
    spec = cast(Object, (resource.definition or {}).get("spec") or {})
    if spec.get("preserveUnknownFields") is True:
        return None
    strategy = resource.strategy
    return strategy.schema if isinstance(strategy, CustomStrategy) else None


def _unknown(  # noqa: C901 - one branch for each of pruning's cases
    value: Any, node: Mapping[str, Any] | None, path: str, out: list[str], *, root: bool = False, kept: bool = False
) -> None:
    if node is not None and node.get("x-kubernetes-preserve-unknown-fields") is True:
        kept = True
    if isinstance(value, dict):
        properties = cast("Mapping[str, Any]", (node or {}).get("properties") or {})
        more = (node or {}).get("additionalProperties")
        embedded = root or (node or {}).get("x-kubernetes-embedded-resource") is True
        for key, item in cast(Object, value).items():
            if embedded and key in _TYPE_META:
                continue
            here = f"{path}.{key}" if path else key
            if key in properties:
                _unknown(item, properties[key], here, out)
            elif more not in (None, False):
                inner = cast("Mapping[str, Any]", more) if isinstance(more, Mapping) else None
                if inner is not None or not kept:
                    _unknown(item, inner, here, out)
            elif not kept:
                out.append(here)
    elif isinstance(value, list):
        items = (node or {}).get("items")
        inner = cast("Mapping[str, Any]", items) if isinstance(items, Mapping) else None
        if inner is None and kept:
            return
        for index, item in enumerate(cast("list[Any]", value)):
            _unknown(item, inner, f"{path}[{index}]", out, kept=kept)


def integers(value: Any) -> Any:
    """The same with integral floats as integers, in place where it can be: Go writes 1.0 as 1."""
    if isinstance(value, dict):
        found = cast(Object, value)
        for key, item in found.items():
            if isinstance(item, dict | list | float):
                found[key] = integers(item)
        return found
    if isinstance(value, list):
        items = cast("list[Any]", value)
        for index, item in enumerate(items):
            if isinstance(item, dict | list | float):
                items[index] = integers(item)
        return items
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value
