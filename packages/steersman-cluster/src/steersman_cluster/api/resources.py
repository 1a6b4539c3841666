"""What is served at present: resource types by group, version and plural. Built-in ones, and those of definitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from steersman_cluster.objects import Object, dig
from steersman_cluster.schema import Type
from steersman_cluster.storage import GroupResource
from steersman_cluster.strategy import Strategy

if TYPE_CHECKING:
    from steersman_cluster.api.call import Call
    from steersman_cluster.api.messages import Response

__all__ = ["Handler", "Registry", "ResourceType", "Subresource"]

Handler: TypeAlias = "Callable[[Call], Awaitable[Object | Response]]"
"""Serves a sub-resource or a create-only resource that is not stored."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A door of an object. Without a handler it reads and writes the object itself (`status`), or its scale."""

    verbs: frozenset[str] = frozenset(("get", "update", "patch"))
    handler: Handler | None = None
    group: str | None = None
    """Group, version and kind of what goes through it, where that is not the object."""
    version: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ResourceType:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    strategy: Strategy
    type: Type
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict[str, Subresource])
    storage_version: str = ""
    """The version that objects are stored in; this one where empty."""
    storage_name: GroupResource | None = None
    """Where objects are stored, where that is another group's resource (events)."""
    definition: Object | None = None
    """The CustomResourceDefinition behind it."""
    handler: Handler | None = None
    """Serves creates of a resource that is not stored (reviews)."""
    converts: bool = False
    """Whether only a webhook converts its versions: reads and writes ask `conversions` first."""

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_at(self) -> GroupResource:
        """Which collection of the storage it is."""
        return self.storage_name or (self.group, self.plural)

    @property
    def list_kind(self) -> str:
        """The kind of its lists."""
        if self.definition is not None:
            return dig(self.definition, "status", "acceptedNames", "listKind") or f"{self.kind}List"
        return f"{self.kind}List"


class Registry:
    """What is served now. `serial` changes with every change, for whoever keeps documents made of it."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self.serial = 0

    def register(self, resource: ResourceType) -> None:
        """Serve a resource from now on; one of the same name is replaced."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self.serial += 1

    def unregister(self, group: str, version: str, plural: str) -> None:
        """Serve it no more."""
        if self._types.pop((group, version, plural), None) is not None:
            self.serial += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type of a resource in a version."""
        return self._types.get((group, version, plural))

    def of(self, group: str, plural: str) -> list[ResourceType]:
        """A resource in all its versions."""
        return [t for t in self._types.values() if t.group == group and t.plural == plural]

    def stored(self, resource: GroupResource) -> list[ResourceType]:
        """All types that serve one collection of the storage."""
        return [t for t in self._types.values() if t.stored_at == resource]

    def of_kind(self, group: str, version: str, kind: str) -> ResourceType | None:
        """The type of a kind."""
        for found in self._types.values():
            if (found.group, found.version, found.kind) == (group, version, kind):
                return found
        return None

    def __iter__(self) -> Iterable[ResourceType]:
        return iter(tuple(self._types.values()))

    def all(self) -> tuple[ResourceType, ...]:
        """Everything served."""
        return tuple(self._types.values())
