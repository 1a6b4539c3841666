"""Protocols of the cache's entries, changes and informers, as far as this package uses them.

They let tests of predicates, mappers and sources use plain values instead of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from steersman.models import Key, KindLike, ObjectMeta, OwnerReference

__all__ = ["Change", "Entry", "Informer"]

T = TypeVar("T")


class Entry(Protocol):
    """One cached object, as `cache.Entry` provides it."""

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        ...

    @property
    def uid(self) -> str:
        """The UID of the object."""
        ...

    @property
    def resource_version(self) -> str:
        """The resource version of the object; empty if the server sent none."""
        ...

    @property
    def generation(self) -> int:
        """The generation of the object, which grows with each change of its spec."""
        ...

    @property
    def deleting(self) -> bool:
        """Whether the object has a `deletionTimestamp`."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the entry has the complete object instead of its metadata only."""
        ...

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        """The `ownerReferences` of the object."""
        ...

    def as_desired(self, other: Any, /) -> bool:
        """Return whether both entries have the same `generation` and the same value of `deleting`."""
        ...

    def metadata(self) -> ObjectMeta:
        """Return the metadata of the object."""
        ...

    def object(self, view: KindLike[T], /) -> T:
        """Return the object in a view."""
        ...

    def raw(self) -> bytes:
        """Return the JSON of the object."""
        ...


class Change(Protocol):
    """One change of one object: `old` is `None` for an add, `new` for a delete."""

    @property
    def type(self) -> Literal["add", "update", "delete"]:
        """The type of the change."""
        ...

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        ...

    @property
    def old(self) -> Entry | None:
        """The state before the change; `None` for an add."""
        ...

    @property
    def new(self) -> Entry | None:
        """The state after the change; `None` for a delete."""
        ...

    @property
    def initial(self) -> bool:
        """Whether the change is the add of an object that existed before the handler or the informer started."""
        ...


class Informer(Protocol):
    """The source of changes; handlers are called synchronously, in order."""

    def add_handler(self, handler: Callable[[Change], None], /) -> object:
        """Call a function with each change."""
        ...

    def remove_handler(self, handler: Callable[[Change], None], /) -> object:
        """Stop the calls of a function."""
        ...
