"""Tables: what `kubectl get` shows, as the API server makes it (`meta.k8s.io/v1 Table`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steersman_cluster.api.interfaces import ResourceType
from steersman_cluster.api.views import partial
from steersman_cluster.objects import Object, meta

__all__ = ["columns_of", "rows_of", "table_of"]

_NAME = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow"


def columns_of(resource: ResourceType) -> list[Object]:
    """Return the column definitions of a table response, as the kind or its CRD declares them."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in resource.strategy.columns
    ]


def rows_of(resource: ResourceType, objects: Iterable[Object], now: float, include: str) -> list[Object]:
    """One row for each object; `include` is None, Metadata (the default) or Object."""
    rows: list[Object] = []
    for obj in objects:
        shown: Any = None if include == "None" else obj if include == "Object" else partial(obj)
        row: Object = {"cells": resource.strategy.row(obj, now)}
        row["object"] = shown
        rows.append(row)
    return rows


def table_of(
    resource: ResourceType,
    objects: Iterable[Object],
    metadata: Object,
    now: float,
    include: str,
    *,
    columns: bool = True,
) -> Object:
    """A table of objects; watch events after the first leave the columns out."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns_of(resource) if columns else None,
        "rows": rows_of(resource, objects, now, include),
    }


def metadata_for(obj: Object) -> Object:
    """The table's metadata for a single object."""
    version = meta(obj).get("resourceVersion")
    return {"resourceVersion": version} if version else {}
