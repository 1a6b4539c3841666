"""The other groups and versions in which the objects of a resource are served, for admission rules that match them."""

from __future__ import annotations

import copy

from steersman_cluster.admission import Equivalent
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.objects import Object
from steersman_cluster.schema import Type, builtin

__all__ = ["ServedVersions"]


class ServedVersions:
    """Equivalent resources of one API server: all that serve the same stored objects (`matchPolicy: Equivalent`)."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def equivalents(self, group: str, version: str, resource: str, subresource: str) -> list[Equivalent]:
        """Return the resources that serve the same objects, this one included, in the order of their registration."""
        registry = self._server.registry
        own = registry.find(group, version, resource)
        if own is None:
            return []
        found: list[Equivalent] = []
        for other in registry.stored(own.stored_at):
            if not subresource:
                found.append(Equivalent(other.group, other.version, other.plural, other.kind))
            elif (sub := other.subresources.get(subresource)) is not None:
                found.append(
                    Equivalent(other.group, other.version, other.plural, sub.kind or other.kind, sub.group, sub.version)
                )
        return found

    def needs_webhook(self, seen: Equivalent) -> bool:
        """Return whether objects reach this version by a conversion webhook only."""
        resource = self._server.registry.find(seen.group, seen.version, seen.resource)
        return resource is not None and resource.converts

    def structure(self, seen: Equivalent) -> Type | None:
        """Return the structure of the objects of a version; `None` where it is not served."""
        if seen.kind_group is not None and seen.kind_version is not None:
            return builtin(seen.kind_group, seen.kind_version, seen.kind)
        resource = self._server.registry.find(seen.group, seen.version, seen.resource)
        return None if resource is None else resource.type

    async def convert(self, obj: Object, seen: Equivalent) -> Object:
        """Return an object in another version; the given one is not changed. Raises `APIError` when a webhook fails."""
        resource = self._other(obj, seen)
        if resource is None:
            return obj
        if resource.converts:
            return await self._server.conversions.to_version(resource, obj)
        return self._by_strategy(obj, resource)

    def convert_now(self, obj: Object, seen: Equivalent) -> Object:
        """Return an object in another version that needs no webhook."""
        resource = self._other(obj, seen)
        return obj if resource is None else self._by_strategy(obj, resource)

    def _other(self, obj: Object, seen: Equivalent) -> ResourceType | None:
        """The resource to convert to; `None` for an object that has its kind (a Scale has the same in all versions)."""
        if (obj.get("apiVersion"), obj.get("kind")) == (seen.api_version, seen.kind):
            return None
        return self._server.registry.find(seen.group, seen.version, seen.resource)

    def _by_strategy(self, obj: Object, resource: ResourceType) -> Object:
        rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        if resource.definition is None:
            group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
            source = self._server.registry.of_kind(group, version, str(obj.get("kind") or ""))
            if source is not None:
                rest = resource.strategy.from_storage(source.strategy.to_storage(copy.deepcopy(obj)))
                rest = {name: value for name, value in rest.items() if name not in ("kind", "apiVersion")}
        return {"kind": resource.kind, "apiVersion": resource.api_version, **rest}
