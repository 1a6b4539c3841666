"""The parts of events, objects and pages that `wire` decodes.

They are separate from `wire`, which is compiled: mypyc does not support the class options of msgspec.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from steersman.models import OwnerReference

__all__ = ["Bookmark", "Event", "Head", "Item", "Meta", "Page", "RawEvent"]


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata fields that a cache uses, and the raw managedFields that it drops."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    managed_fields: Raw | UnsetType = UNSET


_NO_META: Final = Meta()


class Head(msgspec.Struct, frozen=True, gc=False):
    """An object of which only the metadata is decoded."""

    metadata: Meta = _NO_META


class Item(Head, frozen=True, gc=False):
    """An item of a list; items of built-in kinds have no kind and apiVersion."""

    kind: str = ""


class Event(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One line of a watch stream."""

    type: str
    object: Head


class RawEvent(msgspec.Struct):
    """One line of a watch stream with the object's bytes."""

    type: str
    object: Raw


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: _PageMeta = msgspec.field(default_factory=_PageMeta)
    items: list[Raw] | None = None


class _Annotated(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _Annotated


class Bookmark(msgspec.Struct):
    """The annotations of a bookmark's line."""

    object: _BookmarkObject
