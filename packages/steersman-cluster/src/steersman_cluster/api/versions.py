"""The versions of one object during one write, for the ownership of fields that managers set in other versions.

Field management is synchronous. Where a conversion webhook must be called, it raises `ConversionNeededError`; the
writer calls the webhook (`resolve`) and repeats the step, which then finds the result.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from steersman_cluster.api.interfaces import Registry, ResourceType
from steersman_cluster.objects import Object
from steersman_cluster.schema import Type

__all__ = ["ConversionNeededError", "ObjectVersions"]

_Result = TypeVar("_Result")
_MAX_CONVERSIONS = 256


class ConversionNeededError(Exception):
    """A step needs an object in a version that a conversion webhook has not made yet."""

    def __init__(self, obj: Object, resource: ResourceType) -> None:
        super().__init__(resource.api_version)
        self.obj = obj
        self.resource = resource


class ObjectVersions:
    """Converts the objects of one write.

    Args:
        registry: The served resources.
        resource: The resource of the request.
        convert: Calls the conversion webhook of a kind.
    """

    def __init__(
        self, registry: Registry, resource: ResourceType, convert: Callable[[ResourceType, Object], Awaitable[Object]]
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._convert = convert
        self._made: dict[tuple[str, bytes], Object] = {}

    def __call__(self, obj: Object, api_version: str) -> tuple[Object, Type] | None:
        """Return an object in a version, and the structure there; `None` where the version is not served.

        Raises:
            ConversionNeededError: Only a webhook converts the object, and `resolve` has not been called for it.
        """
        own = str(obj.get("apiVersion") or self._resource.api_version)
        source, target = self._served(own), self._served(api_version)
        if target is None or source is None:
            return None
        if source is target:
            return obj, target.type
        if target.converts:
            made = self._made.get((api_version, msgspec.json.encode(obj)))
            if made is None:
                raise ConversionNeededError(obj, target)
            return made, target.type
        made = obj
        if target.definition is None:
            made = target.strategy.from_storage(source.strategy.to_storage(copy.deepcopy(obj)))
        return {**made, "apiVersion": target.api_version, "kind": target.kind}, target.type

    async def run(self, step: Callable[[], _Result]) -> _Result:
        """Run a step, and repeat it after each conversion that it needs. Raises `APIError` when a webhook fails."""
        for _ in range(_MAX_CONVERSIONS):
            try:
                return step()
            except ConversionNeededError as needed:
                sent = {"kind": needed.resource.kind, "apiVersion": self._resource.api_version, **needed.obj}
                made = await self._convert(needed.resource, sent)
                self._made[needed.resource.api_version, msgspec.json.encode(needed.obj)] = made
        return step()

    def _served(self, api_version: str) -> ResourceType | None:
        group, _, version = api_version.rpartition("/")
        return self._registry.find(group, version, self._resource.plural)
