"""`Entry`, one version of one cached object, and `Change`, one change of an object.

An entry is an immutable view of a record. Its keys come from the record's header; everything else is decoded on
demand. An entry stays valid and unchanged after later changes of the cache (C1).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec

from steersman.cache import records
from steersman.cache.immutability import is_immutable
from steersman.models import (
    DecodeError,
    Key,
    KindLike,
    ObjectMeta,
    OwnerReference,
    PartialObjectMetadata,
    Resource,
    View,
    decode,
)

__all__ = ["Change", "ChangeType", "Entry", "NotCachedError", "UndecodableError"]

T = TypeVar("T")
ChangeType: TypeAlias = Literal["add", "update", "delete"]


class NotCachedError(LookupError):
    """No informer covers the read: declare the kind in the form that is read, or read it through the client."""


class UndecodableError(DecodeError):
    """A cached object does not fit the type that it is read as.

    `key` and `resource_version` identify the object; `path` and `problem` say which field does not fit, and why. The
    cache still lists the object by key and still reports its changes and its deletion.
    """

    def __init__(self, kind: str, key: Key, resource_version: str, message: str, path: str) -> None:
        super().__init__(f"{kind} {key} does not fit its type: {message}", path)
        self.kind = kind
        self.key = key
        self.resource_version = resource_version
        self.problem = message


class EntryStore(Protocol):
    """The store of an entry, as the entry uses it."""

    @property
    def view(self) -> View[Any]:
        """The view in which objects are read by default."""
        ...

    def body_of(self, record: bytes) -> bytes:
        """Return the JSON of a record."""
        ...

    def read(self, entry: Entry, kind: KindLike[T], *, keep: bool = True) -> T:
        """Return the object of an entry. Raises `UndecodableError`."""
        ...

    def undecodable(self, entry: Entry, problem: DecodeError) -> UndecodableError:
        """Return the error of an entry that does not fit its type."""
        ...


class Entry(msgspec.Struct, eq=False, gc=False):
    """One version of one cached object."""

    _store: EntryStore
    key: Key
    """Namespace and name."""
    record: bytes
    """This version as the cache stores it (`records`)."""
    _body: bytes | None = None
    _header: records.Header | None = None
    _metadata: ObjectMeta | None = None
    _object: object = None
    """The object as it was read last, for the other handlers of the same change."""
    _object_type: object = None

    def _head(self) -> records.Header:
        self._header = header = self._header or records.decode_header(self.record)
        return header

    @property
    def uid(self) -> str:
        """The uid, which differs between objects that had the same name one after the other."""
        return (self._header or self._head())[3][0]

    @property
    def resource_version(self) -> str:
        """The resourceVersion of this version."""
        return (self._header or self._head())[3][1]

    @property
    def generation(self) -> int:
        """metadata.generation; 0 for kinds without one."""
        return (self._header or self._head())[2]

    @property
    def deleting(self) -> bool:
        """Whether the object has a deletionTimestamp."""
        return self.record[records.FLAGS] & records.DELETING != 0

    def as_desired(self, other: Entry) -> bool:
        """Return whether the desired state equals that of `other`: same generation, same presence of deletionTimestamp.

        Equal to comparing `generation` and `deleting`, in one call, because it runs for nearly every event.
        """
        mine, its = self._header or self._head(), other._header or other._head()
        return mine[2] == its[2] and (mine[0] ^ its[0]) & records.DELETING == 0

    @property
    def size(self) -> int:
        """Bytes of the stored JSON before compression."""
        return (self._header or self._head())[1]

    @property
    def owner_uids(self) -> tuple[str, ...]:
        """The uids of all owners, read without decoding."""
        return self._head()[3][2:]

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        """The owner references; decodes the metadata only if there are any."""
        return self.metadata().owner_references if records.has_owners(self.record) else ()

    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner, or `None`."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def whole(self) -> bool:
        """Whether the entry holds the whole object and not only its metadata (W11)."""
        return self._store.view.form != "metadata"

    def raw(self) -> bytes:
        """Return the stored JSON: without managedFields, after the transform; only metadata if not `whole`."""
        body = self._body
        if body is None:
            body = self._body = self._store.body_of(self.record)
        return body

    def metadata(self) -> ObjectMeta:
        """Return all metadata. Raises `UndecodableError` if a field has an unexpected type."""
        if self._metadata is None:
            if isinstance(self._object, Resource | PartialObjectMetadata):
                self._metadata = self._object.metadata
                return self._metadata
            try:
                self._metadata = decode(PartialObjectMetadata, self.raw()).metadata
            except DecodeError as problem:
                raise self._store.undecodable(self, problem) from None
        return self._metadata

    def object(self, view: KindLike[T]) -> T:
        """Return the object in a view: typed and metadata values are shared and immutable, dynamic ones are new.

        Raises:
            UndecodableError: A field does not fit its type; counted and logged once per version of the object.
            NotCachedError: The view needs whole objects, and the entry is not `whole`.
        """
        seen_as: Any = view.type if isinstance(view, View) else view
        if self._object_type is seen_as:
            return cast(T, self._object)
        found = self._store.read(self, view)
        if is_immutable(seen_as):
            self._object, self._object_type = found, seen_as
        return found

    def keep(self, found: object, type: object) -> None:
        """Keep a decoded, immutable object for the readers of this entry."""
        self._object, self._object_type = found, type

    def object_once(self, view: KindLike[T]) -> T:
        """Return the object as `object` does, without keeping the decoded value for other readers."""
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
    """One change of one object, as handlers receive it.

    An "add" has `new`, a "delete" has `old` (the last known state), an "update" has both, with the same uid. An object
    that was deleted and created again under the same name is a delete and an add.
    """

    type: ChangeType
    key: Key
    old: Entry | None
    """The entry before the change; `None` for an add."""
    new: Entry | None
    """The entry after the change; `None` for a delete."""
    initial: bool = False
    """Whether the object comes from the first list and not from a watch event."""

    @property
    def entry(self) -> Entry:
        """The newest known state: `new`, or `old` for a delete."""
        entry = self.old if self.new is None else self.new
        assert entry is not None
        return entry
