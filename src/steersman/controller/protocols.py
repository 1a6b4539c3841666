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
    """One cached object."""

    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def deleting(self) -> bool: ...
    @property
    def whole(self) -> bool: ...
    @property
    def owners(self) -> tuple[OwnerReference, ...]: ...
    def as_desired(self, other: Any, /) -> bool: ...
    def metadata(self) -> ObjectMeta: ...
    def object(self, view: KindLike[T], /) -> T: ...
    def raw(self) -> bytes: ...


class Change(Protocol):
    """One change of one object: `old` is `None` for an add, `new` for a delete."""

    @property
    def type(self) -> Literal["add", "update", "delete"]: ...
    @property
    def key(self) -> Key: ...
    @property
    def old(self) -> Entry | None: ...
    @property
    def new(self) -> Entry | None: ...
    @property
    def initial(self) -> bool: ...


class Informer(Protocol):
    """The source of changes; handlers are called synchronously, in order."""

    def add_handler(self, handler: Callable[[Change], None], /) -> object: ...
    def remove_handler(self, handler: Callable[[Change], None], /) -> object: ...
