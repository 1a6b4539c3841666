"""The store of a kind that is only looked at by its metadata, and how what it has gives way to whole objects.

The server sends such objects as PartialObjectMetadata; they are kept under their own kind, so that a metadata view
shows the same whatever was asked of the server. Such an object is never decoded as its type: what is missing would
read as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from steersman.cache.entry import Change, Entry, NotCachedError
from steersman.cache.store import Store
from steersman.cache.wire import Body, Meta, Taken, type_prefix
from steersman.models import KindLike, View, view_of

__all__ = ["REMEDY", "MetadataStore"]

T = TypeVar("T")

REMEDY: Final = (
    "declare that whole objects are read (owns=, reads=, watches= with the class or dynamic(…), or Cache.informer)"
    " and await wait_synced, or read them through the client"
)
"""What to do about a read of whole objects where there are none."""

_PARTIAL: Final = type_prefix("meta.k8s.io/v1", "PartialObjectMetadata")
_NAME: Final = b'"PartialObjectMetadata"'

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class MetadataStore(Store):
    """All objects of one kind and scope, of each its metadata.

    A server that has no metadata form sends whole objects; these are kept as they are, and read by their metadata all
    the same.
    """

    def read(self, entry: Entry, kind: KindLike[T], *, keep: bool = True) -> T:
        """See `Store.read`; raises `NotCachedError` for every other view than that of the metadata."""
        view = kind if isinstance(kind, View) else view_of(kind)
        if view.form != "metadata":
            raise NotCachedError(f"only the metadata of {view.info.kind} {entry.key} is here: {REMEDY}")
        return super().read(entry, view, keep=keep)

    def apply(self, event: str, meta: Meta, body: bytes, guessed: bool = False) -> tuple[Change, ...]:
        """See `Store.apply`."""
        return super().apply(event, meta, self._named(body), guessed)

    def stage(self, event: str, meta: Meta, body: Body, guessed: bool = False) -> None:
        """See `Store.stage`."""
        super().stage(event, meta, self._named(bytes(body)), guessed)

    def stage_all(self, events: Sequence[Taken]) -> None:
        """See `Store.stage_all`."""
        for event in events:
            self.stage(*event)

    def give_way(self, whole: Store) -> Iterator[Change]:
        """How the content of `whole`, which takes this one's place, differs: deletes first, then adds and updates (W5).

        The same version of the same object is no difference, however much more of it there is now.
        """
        whole._gone = self._gone
        return self._differences(whole)

    def _differences(self, whole: Store) -> Iterator[Change]:
        for old in self.entries():
            new = whole.get(old.key)
            if new is None or new.uid != old.uid:
                self._bury(old)
                yield Change("delete", old.key, old, None)
        for entry in whole.entries():
            before = self.get(entry.key)
            if before is None or before.uid != entry.uid:
                yield Change("add", entry.key, None, entry)
            elif before.resource_version != entry.resource_version:
                yield Change("update", entry.key, before, entry)

    def _named(self, body: bytes) -> bytes:
        """The object under its own kind."""
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
