"""What this room needs of the cache: an entry, a change, an informer. The real ones satisfy these by shape.

Kept this small so that predicates, mappers and sources are tested with values instead of clusters.
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
    """What happened to one object: `old` is None for an add, `new` for a delete."""

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
    """Where changes come from; handlers are called synchronously, in order."""

    def add_handler(self, handler: Callable[[Change], None], /) -> object: ...
    def remove_handler(self, handler: Callable[[Change], None], /) -> object: ...
