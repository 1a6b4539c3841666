"""What readers and handlers of a cache see: `Entry`, one version of one object, and `Change`, what happened to it.

An entry is a light, immutable window on a record: its keys are read from the record's header, everything else is
decoded when somebody asks. It stays valid, and stays the same, whatever the cache does afterwards (C1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec

from steersman.cache import records
from steersman.models import (
    DecodeError,
    Key,
    KindLike,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
    decode,
)

if TYPE_CHECKING:
    from steersman.cache.store import Store

__all__ = ["Change", "ChangeType", "Entry", "NotCachedError", "UndecodableError"]

T = TypeVar("T")
ChangeType: TypeAlias = Literal["add", "update", "delete"]


class NotCachedError(LookupError):
    """No informer has what the read needs: declare the kind in the form that is read, or read through the client."""


class UndecodableError(DecodeError):
    """A cached object that does not fit the type it is read as.

    `key` and `resource_version` say which, `path` and `message` what does not fit. The object is still listed by key,
    and still yields changes and its delete.
    """

    def __init__(self, kind: str, key: Key, resource_version: str, message: str, path: str) -> None:
        super().__init__(f"{kind} {key} does not fit its type: {message}", path)
        self.kind = kind
        self.key = key
        self.resource_version = resource_version
        self.problem = message


class Entry(msgspec.Struct, eq=False, gc=False):
    """One version of one cached object."""

    _store: Store
    key: Key
    """Namespace and name."""
    record: bytes
    """The cache's own form of this version."""
    _body: bytes | None = None
    _header: records.Facts | None = None
    _metadata: ObjectMeta | None = None

    def _head(self) -> records.Facts:
        self._header = header = self._header or records.header_of(self.record)
        return header

    @property
    def uid(self) -> str:
        """What tells the object from another of the same name before or after it."""
        return (self._header or self._head())[3][0]

    @property
    def resource_version(self) -> str:
        """The version of the object that this is."""
        return (self._header or self._head())[3][1]

    @property
    def generation(self) -> int:
        """Counts changes of the desired state; 0 for kinds without one."""
        return (self._header or self._head())[2]

    @property
    def deleting(self) -> bool:
        """Whether the object has a deletionTimestamp."""
        return self.record[records.FLAGS] & records.DELETING != 0

    def as_desired(self, other: Entry) -> bool:
        """Whether nobody wants anything else since `other`: the same generation, and deleted as little or as much.

        What `generation` and `deleting` say, in one call: nearly every event is asked.
        """
        mine, its = self._header or self._head(), other._header or other._head()
        return mine[2] == its[2] and (mine[0] ^ its[0]) & records.DELETING == 0

    @property
    def size(self) -> int:
        """Bytes of the object's JSON as kept, before compression."""
        return (self._header or self._head())[1]

    @property
    def owner_uids(self) -> tuple[str, ...]:
        """The uids of all owners; costs no decoding."""
        return self._head()[3][2:]

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        """The owner references; decodes the metadata only where there are any."""
        return self.metadata().owner_references if records.has_owners(self.record) else ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if any."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def whole(self) -> bool:
        """Whether the whole object is here, and not only its metadata (W11)."""
        return self._store.view.form != "metadata"

    def raw(self) -> bytes:
        """The object's JSON, without managedFields and what a transform dropped; for every caller its own to keep.

        Has the metadata only where not `whole`.
        """
        body = self._body
        if body is None:
            body = self._body = self._store.body_of(self.record)
        return body

    def metadata(self) -> ObjectMeta:
        """All metadata; raises `UndecodableError` when it has unexpected types."""
        if self._metadata is None:
            try:
                self._metadata = decode(PartialObjectMetadata, self.raw()).metadata
            except DecodeError as problem:
                raise self._store.undecodable(self, problem) from None
        return self._metadata

    def object(self, view: KindLike[T]) -> T:
        """The object in a view. Typed and metadata views are shared and immutable; a dynamic one is decoded anew.

        Raises `UndecodableError` with the field path; the problem is counted and logged once per version of the object.
        Raises `NotCachedError` for any but a metadata view where the entry is not `whole`.
        """
        return self._store.read(self, view)

    def object_once(self, view: KindLike[T]) -> T:
        """As `object`, for who reads each version once: found where others have read it, but not kept for others."""
        return self._store.read(self, view, keep=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return self.key == other.key and self._head()[3][:2] == other._head()[3][:2]

    def __hash__(self) -> int:
        return hash((self.key, self._head()[3][:2]))

    def __repr__(self) -> str:
        return f"<Entry {self.key} uid={self.uid} resourceVersion={self.resource_version}>"


class Change(msgspec.Struct, frozen=True, gc=False):
    """What happened to one object, as handlers hear it.

    "add" has `new`, "delete" has `old` (the last known state), "update" has both, and they have the same uid: an object
    that was re-created under its name is a delete and an add.
    """

    type: ChangeType
    key: Key
    old: Entry | None
    """The entry before the change; `None` for an add."""
    new: Entry | None
    """The entry after the change; `None` for a delete."""
    initial: bool = False
    """Whether the object was found by the first list rather than seen to change."""

    @property
    def entry(self) -> Entry:
        """The newest known state: `new`, or for a delete `old`."""
        entry = self.old if self.new is None else self.new
        assert entry is not None
        return entry
