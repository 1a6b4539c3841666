"""Stored items and events: immutable values that readers and watchers share."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from steersman_cluster.objects import Object

__all__ = ["Event", "EventType", "GroupResource", "Item", "decode", "encode"]

GroupResource: TypeAlias = tuple[str, str]
"""API group and plural: one collection, whatever versions serve it."""

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode


class _Meta(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta | None = None


_decode_head: Final = msgspec.json.Decoder(_Head).decode


class Item:
    """One version of one stored object. Immutable; values that are derived from it are cached with it."""

    __slots__ = ("_labels", "derived", "name", "namespace", "revision", "value", "written")

    def __init__(self, namespace: str, name: str, revision: int, value: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.value = value
        self._labels: dict[str, str] | None = None
        self.derived: dict[Any, Any] | None = None
        """Cached forms of this version: other API versions, table rows, watch frames."""
        self.written: Object | None = None
        """The object, for reading only, while its write is delivered."""

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels; decoded when first asked for."""
        if self._labels is None:
            metadata = _decode_head(self.value).metadata
            self._labels = (metadata.labels if metadata is not None else None) or {}
        return self._labels

    def object(self) -> Object:
        """A fresh copy of the object, for the caller to keep."""
        return decode(self.value)


class Event(NamedTuple):
    """One write: `item` is the object after it, or its last state with the revision of the delete."""

    type: EventType
    resource: GroupResource
    item: Item
    before: Item | None
