"""Conversion of custom resources by webhooks, before the synchronous parts of a request.

Reads and writes are synchronous. The objects that they need are converted here, once for each version, and cached with
the item. Kinds without a conversion webhook are not handled here (`ResourceType.converts` is false).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from steersman_cluster import crd
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.objects import Object
from steersman_cluster.storage import Item

__all__ = ["Conversions"]


class Conversions:
    """Asks the conversion webhooks of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def prepare(self, resource: ResourceType, items: Iterable[Item]) -> None:
        """Have items ready in the version of `resource`, so that `object_of` finds them. Raises a 500."""
        waiting: list[Item] = []
        objects: list[Object] = []
        for item in items:
            if item.derived is not None and (resource, "converted") in item.derived:
                continue
            obj = item.object()
            if obj.get("apiVersion") != resource.api_version:
                waiting.append(item)
                objects.append(obj)
        if not waiting:
            return
        made = await self._convert(resource, objects, resource.api_version)
        for item, obj in zip(waiting, made, strict=True):
            if item.derived is None:
                item.derived = {}
            item.derived[resource, "converted"] = obj

    async def to_storage(self, resource: ResourceType, obj: Object) -> Object:
        """An object in the version in which it is stored. Raises a 500."""
        group = resource.group
        version = resource.storage_version or resource.version
        wanted = f"{group}/{version}"
        if obj.get("apiVersion") == wanted:
            return obj
        return (await self._convert(resource, [obj], wanted))[0]

    async def to_version(self, resource: ResourceType, obj: Object) -> Object:
        """An object in the version of `resource`. Raises a 500."""
        return (await self._convert(resource, [obj], resource.api_version))[0]

    async def _convert(self, resource: ResourceType, objects: list[Object], api_version: str) -> list[Object]:
        caller = self._server.admission.caller
        return await crd.convert(cast(Object, resource.definition), objects, api_version, caller.call)
