"""The store of a kind of which only metadata is read, and its replacement by a store of whole objects.

The server sends such objects as PartialObjectMetadata. They are stored under their own kind, so that a metadata view
returns the same for both forms. They are never decoded as their type, because missing fields would read as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from steersman.cache.entry import Change, Entry, NotCachedError
from steersman.cache.store import Store
from steersman.cache.wire import Body, Meta, ParsedEvent, type_prefix
from steersman.models import KindLike, View, view_of

__all__ = ["WHOLE_OBJECTS_HINT", "MetadataStore"]

T = TypeVar("T")

WHOLE_OBJECTS_HINT: Final = (
    "declare that whole objects are read (owns=, reads=, watches= with the class or dynamic(…), or Cache.informer)"
    " and await wait_synced, or read them through the client"
)
"""The remedy in errors about reads of whole objects where only metadata is stored."""

_PARTIAL: Final = type_prefix("meta.k8s.io/v1", "PartialObjectMetadata")
_NAME: Final = b'"PartialObjectMetadata"'

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class MetadataStore(Store):
    """The metadata of all objects of one kind and scope.

    Whole objects from a server without the metadata form are stored unchanged, and only their metadata is read.
    """

    def read(self, entry: Entry, kind: KindLike[T], *, keep: bool = True) -> T:
        """Decode an entry as `Store.read` does; raises `NotCachedError` for any view but metadata."""
        view = kind if isinstance(kind, View) else view_of(kind)
        if view.form != "metadata":
            raise NotCachedError(f"only the metadata of {view.info.kind} {entry.key} is cached: {WHOLE_OBJECTS_HINT}")
        return super().read(entry, view, keep=keep)

    def apply(self, event: str, meta: Meta, body: bytes, guessed: bool = False) -> tuple[Change, ...]:  # noqa: FBT001, FBT002 - a ParsedEvent
        """Store a watch event as `Store.apply` does."""
        return super().apply(event, meta, self._named(body), guessed)

    def stage(self, event: str, meta: Meta, body: Body, guessed: bool = False) -> None:  # noqa: FBT001, FBT002 - a ParsedEvent
        """Stage an object as `Store.stage` does."""
        super().stage(event, meta, self._named(bytes(body)), guessed)

    def stage_all(self, events: Sequence[ParsedEvent]) -> None:
        """Stage objects as `Store.stage_all` does."""
        for event in events:
            self.stage(*event)

    def replace_with(self, whole: Store) -> Iterator[Change]:
        """Return the changes from this content to that of `whole`: deletes first, then adds and updates (W5).

        The same version of the same object is not a change, although `whole` has more of it.
        """
        whole._deleted_uids = self._deleted_uids
        return self._differences(whole)

    def _differences(self, whole: Store) -> Iterator[Change]:
        for old in self.entries():
            new = whole.get(old.key)
            if new is None or new.uid != old.uid:
                self._forget_deleted(old)
                yield Change("delete", old.key, old, None)
        for entry in whole.entries():
            before = self.get(entry.key)
            if before is None or before.uid != entry.uid:
                yield Change("add", entry.key, None, entry)
            elif before.resource_version != entry.resource_version:
                yield Change("update", entry.key, before, entry)

    def _named(self, body: bytes) -> bytes:
        """Return the object's JSON with its own kind and apiVersion."""
        if body.startswith(_PARTIAL):
            info = self.view.info
            return type_prefix(info.api_version, info.kind) + body[len(_PARTIAL) :]
        if _NAME not in body:
            return body
        members = _decode_members(body)
        if bytes(members.get("kind", b"")) != _NAME:
            return body
        info = self.view.info
        members["kind"] = Raw(msgspec.json.encode(info.kind))
        members["apiVersion"] = Raw(msgspec.json.encode(info.api_version))
        return msgspec.json.encode(members)
