"""The store: the objects of one kind and scope as compressed bytes, with their indexes.

The store owns the cached state. Only its informer changes it, in the event loop's thread. `apply` and `commit` return
the changes, and the informer calls the handlers. Names, versions and owners are in records and strings, which the
garbage collector does not track.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeAlias, TypeVar, cast

from steersman.cache import records
from steersman.cache.codecs import LARGE_OBJECT_BYTES, PLAIN, Codec
from steersman.cache.dictionaries import MAX_SAMPLES, OWN_DICTIONARY_MIN_BYTES, DictionaryPool
from steersman.cache.entry import Change, Entry, UndecodableError
from steersman.cache.immutability import is_immutable
from steersman.cache.index import FunctionIndex, Index, IndexFunction, key_of_member, member_of
from steersman.cache.memory import HUGE_PAGES_INTERVAL_BYTES, NO_MEMORY_POLICY, MemoryPolicy
from steersman.cache.records import encode_header, encode_simple_record
from steersman.cache.uncompressed import UncompressedRecords
from steersman.cache.versions import older
from steersman.cache.wire import Body, Meta, ParsedEvent
from steersman.models import DecodeError, Key, KindLike, View, view_of

__all__ = ["Store", "Transform"]

T = TypeVar("T")
Transform: TypeAlias = Callable[[bytes], bytes]
"""Receives an object's JSON without managedFields and returns the JSON to store. It must keep apiVersion, kind and, of
the metadata, name, namespace, uid and resourceVersion."""

_Objects: TypeAlias = dict[str, dict[str, bytes]]
_new: Final = cast("Callable[[type[Key], tuple[str, str]], Key]", cast(Any, tuple).__new__)
"""Returns a `Key` of a pair, without the Python call of its constructor."""

MAX_DECODED_OBJECTS: Final = 512
"""Decoded objects that a store keeps for readers."""
HUGE_PAGES_AFTER_BYTES: Final = 4 * 1024 * 1024
"""Bytes of large objects in one list that justify huge pages."""
MAX_REMEMBERED_UIDS: Final = 1024
"""Deleted objects whose uids are remembered, so that a late event does not restore one."""


class _Staged:
    """A content: the current one, or one that is staged beside it."""

    __slots__ = ("bytes", "count", "declared", "objects", "owners", "until_huge_pages")

    def __init__(self, declared: dict[str, FunctionIndex]) -> None:
        self.objects: _Objects = {}
        self.owners = Index()
        self.declared = {name: FunctionIndex(d.function, d.view) for name, d in declared.items()}
        self.count = 0
        self.bytes = 0
        self.until_huge_pages = HUGE_PAGES_AFTER_BYTES
        """Bytes of large objects until the next call of the memory policy."""


class Store:
    """The objects of one kind and scope."""

    def __init__(
        self,
        view: View[Any],
        *,
        transform: Transform | None = None,
        pool: DictionaryPool | None = None,
        memory: MemoryPolicy = NO_MEMORY_POLICY,
        on_undecodable: Callable[[UndecodableError], None] = lambda _problem: None,
        on_index_error: Callable[[str, Key, Exception], None] = lambda _index, _key, _problem: None,
    ) -> None:
        self.view = view
        self.transform = transform
        self._memory = memory
        self._content = _Staged({})
        self._staged: _Staged | None = None
        self._pool = pool or DictionaryPool()
        self._codecs = self._pool.codecs
        self.codec: Codec = self._codecs.plain
        """The codec of new records, unless they stay uncompressed for a while."""
        self._own_dictionary: Codec | None = None
        self._own_dictionary_from_bytes = OWN_DICTIONARY_MIN_BYTES
        self._membership = self._pool.join(self)
        self.uncompressed = UncompressedRecords(self._compress_record, self._pool.uncompressed)
        """New records, to be compressed later."""
        self._decoded: OrderedDict[tuple[Any, Key], tuple[bytes, Any]] = OrderedDict()
        self._deleted_uids: dict[str, None] = {}
        self._undecodables: dict[Key, UndecodableError] = {}
        self._on_undecodable = on_undecodable
        self._on_index_error = on_index_error

    # Reading.

    def __len__(self) -> int:
        return self._content.count

    @property
    def size(self) -> int:
        """The bytes of all records, without Python's overhead of about 150 bytes an object."""
        return self._content.bytes

    def get(self, key: Key) -> Entry | None:
        """Return the entry of a key, or `None`."""
        names = self._content.objects.get(key[0])
        record = names.get(key[1]) if names is not None else None
        return None if record is None else Entry(self, key if key.__class__ is Key else Key(*key), record)

    def entries(self, namespace: str | None = None) -> Iterator[Entry]:
        """Iterate over the entries at the time of the call, of all namespaces or of one."""
        objects = self._content.objects
        spaces = tuple(objects) if namespace is None else (namespace,)
        for space, names in [(s, tuple(objects.get(s, {}).items())) for s in spaces]:
            for name, record in names:
                yield Entry(self, Key(space, name), record)

    def by_owner(self, uid: str) -> list[Entry]:
        """Return the entries with an owner of that uid."""
        return self._found(self._content.owners.find(uid))

    def by_index(self, name: str, value: str) -> list[Entry]:
        """Return the entries with a value of a declared index; raises `KeyError` for an unknown index."""
        declared = self._content.declared.get(name)
        if declared is None:
            known = ", ".join(sorted(self._content.declared)) or "none"
            raise KeyError(
                f"{self.view.info.kind} has no index {name!r} (declared: {known}): pass it to informer(indexes=)"
            )
        return self._found(declared.index.find(value))

    def _found(self, members: tuple[str, ...]) -> list[Entry]:
        return [entry for m in members if (entry := self.get(key_of_member(m))) is not None]

    def body_of(self, record: bytes) -> bytes:
        """Return the JSON of a record."""
        codec, payload = records.encoded_payload(record)
        return payload if codec == PLAIN else self._codecs.decode(codec, payload)

    def read(self, entry: Entry, kind: KindLike[T], *, keep: bool = True) -> T:
        """Return the entry decoded in a view, from the decoded objects if possible; raises `UndecodableError`.

        `keep` adds an object of the current content to the decoded objects. An object that is read once per version
        should not be kept: it would displace objects that are read often.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        seen_as: Any = view.type
        slot = (seen_as, entry.key)
        if self._decoded and (hot := self._decoded.get(slot)) is not None and hot[0] is entry.record:
            self._decoded.move_to_end(slot)
            return hot[1]
        try:
            value = view.decode(entry.raw())
        except DecodeError as problem:
            raise self.undecodable(entry, problem) from None
        if keep and is_immutable(seen_as) and self._is_current(entry):
            self._decoded[slot] = (entry.record, value)
            if len(self._decoded) > MAX_DECODED_OBJECTS:
                self._decoded.popitem(last=False)
        return value

    def _is_current(self, entry: Entry) -> bool:
        names = self._content.objects.get(entry.key.namespace)
        return names is not None and names.get(entry.key.name) is entry.record

    def undecodable(self, entry: Entry, problem: DecodeError) -> UndecodableError:
        """Return the error of an entry that does not fit its type; reports each version once."""
        known = self._undecodables.get(entry.key)
        if known is not None and known.resource_version == entry.resource_version:
            return known
        info = self.view.info
        error = UndecodableError(info.kind, entry.key, entry.resource_version, problem.message, problem.path)
        self._undecodables[entry.key] = error
        self._on_undecodable(error)
        return error

    @property
    def undecodables(self) -> tuple[UndecodableError, ...]:
        """The errors of the current content."""
        return tuple(self._undecodables.values())

    # Changing.

    def apply(self, event: str, meta: Meta, body: bytes, guessed: bool = False) -> tuple[Change, ...]:  # noqa: FBT001, FBT002 - a ParsedEvent
        """Store one watch event ("ADDED", "MODIFIED" or "DELETED"); return the changes, in order.

        Duplicates, events older than the stored version, and late events of deleted objects change nothing.
        """
        content = self._content
        names = content.objects.get(meta.namespace)
        old = names.get(meta.name) if names is not None else None
        if event == "DELETED":
            return self._deleted(old, meta, body, guessed=guessed)
        key = _new(Key, (meta.namespace, meta.name))
        uid, version = meta.uid, meta.resource_version
        if old is None:
            if uid in self._deleted_uids:
                return ()
            return (
                Change(
                    "add", key, None, self._put(content, names, None, key, meta, body, owned=False, guessed=guessed)
                ),
            )
        facts = records.decode_header(old)
        texts = facts[3]
        known = texts[1]
        # Nearly always newer with as many digits, which needs no call.
        if (len(version) != len(known) or version <= known) and older(version, known):
            return ()
        before = Entry(self, key, old, None, facts)
        if self._decoded and (hot := self._decoded.get((self.view.type, key))) is not None and hot[0] is old:
            before.keep(hot[1], self.view.type)  # The new version displaces it.
        owned = len(texts) > 2
        if texts[0] == uid:
            if version == known and known:
                return ()
            new = self._put(content, names, old, key, meta, body, owned=owned, guessed=guessed)
            return (Change("update", key, before, new),)
        if uid in self._deleted_uids:
            return ()
        self._forget_deleted(before)
        return (
            Change("delete", key, before, None),
            Change("add", key, None, self._put(content, names, old, key, meta, body, owned=owned, guessed=guessed)),
        )

    def _deleted(self, old: bytes | None, meta: Meta, body: bytes, *, guessed: bool) -> tuple[Change, ...]:
        key = Key(meta.namespace, meta.name)
        if old is None or not records.same_object(old, meta):
            self._remember_deleted_uid(meta.uid)
            return ()
        # The event has the final state, which is newer than the stored one.
        if self.transform is not None:
            body = self.transform(body)
        head, facts = encode_header(meta, len(body), PLAIN, guessed=guessed)
        last = Entry(self, key, head + body, body, facts)
        self._drop(self._content, key, old)
        self._forget_deleted(last)
        return (Change("delete", key, last, None),)

    def clear(self) -> Iterator[Change]:
        """Remove all objects; return their deletes."""
        self.begin()
        return self.commit()

    def begin(self) -> None:
        """Start to stage a list beside the current content, which readers still see (W2)."""
        self.compress(len(self.uncompressed))  # records that the staged list reuses are not compressed later
        self._staged = _Staged(self._content.declared)

    def stage_all(self, events: Sequence[ParsedEvent]) -> None:
        """Stage many events, with an inline path for nearly all objects of a first list."""
        staged, codec = self._staged, self.codec
        assert staged is not None
        simple = self.transform is None and not staged.declared and not self._content.count
        objects, number, pack = staged.objects, codec.number, codec.pack
        count = size = raw = packed = 0
        for event, meta, body, guessed in events:
            names = objects.get(meta.namespace)
            if (
                not simple
                or names is None
                or meta.name in names
                or event == "DELETED"
                or guessed
                or meta.owner_references
                or meta.deletion_timestamp
                or type(body) is not bytes
                or (length := len(body)) >= LARGE_OBJECT_BYTES
            ):
                self.stage(event, meta, body, guessed)
                continue
            payload = body if pack is None else pack(body)
            names[meta.name] = record = encode_simple_record(meta, length, number, payload)
            count += 1
            size += len(record)
            raw += length
            packed += len(payload)
        staged.count += count
        staged.bytes += size
        codec.raw += raw
        codec.packed += packed

    def stage(self, event: str, meta: Meta, body: Body, guessed: bool = False) -> None:  # noqa: FBT001, FBT002 - a ParsedEvent
        """Stage one object, or an event of one; `body` may be in pieces."""
        staged = self._staged
        assert staged is not None
        namespace, name = meta.namespace, meta.name
        names = staged.objects.get(namespace)
        old = names.get(name) if names is not None else None
        if event == "DELETED":
            if old is not None and records.same_object(old, meta):
                self._drop(staged, Key(namespace, name), old)
            return
        record = self._unchanged(meta) if self._content.count else None
        raw: bytes | None = None
        if record is None:
            if self.transform is not None:
                body = self.transform(bytes(body))
            size = len(body)
            if size >= LARGE_OBJECT_BYTES:
                self._stage_large(staged, names, old, meta, body, guessed=guessed)
                return
            raw = body if type(body) is bytes else bytes(body)
            codec = self.codec
            payload = codec.small(raw)
            record = encode_header(meta, size, codec.number, guessed=guessed)[0] + payload
        self._keep(staged, names, old, meta, record)
        if staged.declared:
            self._index(staged, Entry(self, Key(namespace, name), record, raw))

    def _stage_large(
        self,
        staged: _Staged,
        names: dict[str, bytes] | None,
        old: bytes | None,
        meta: Meta,
        body: Body,
        *,
        guessed: bool,
    ) -> None:
        """Stage an object that stays uncompressed for a while."""
        record = records.assemble_record(encode_header(meta, len(body), PLAIN, guessed=guessed)[0], body)
        key = Key(meta.namespace, meta.name)
        names = self._keep(staged, names, old, meta, record)
        staged.bytes -= self.uncompressed.add(key, names, record)
        staged.until_huge_pages -= len(record)
        if staged.until_huge_pages <= 0:
            staged.until_huge_pages = HUGE_PAGES_INTERVAL_BYTES
            self._memory.large_objects_staged()
        if staged.declared:
            self._index(staged, Entry(self, key, record, bytes(body)))

    def _unchanged(self, meta: Meta) -> bytes | None:
        """Return the current record if it has the same uid and version."""
        names = self._content.objects.get(meta.namespace)
        record = names.get(meta.name) if names is not None else None
        return record if record is not None and records.same_version(record, meta) else None

    def discard(self) -> None:
        """Drop the staged list."""
        if self._staged is not None:
            self._staged = None
            self.uncompressed.clear()
            self._memory.list_ended()

    def commit(self, *, initial: bool = False) -> Iterator[Change]:
        """Replace the content with the staged list; return the changes: deletes first, then adds and updates (W5).

        The content is replaced when this returns; the iterator only computes the changes.
        """
        staged, before = self._staged, self._content
        assert staged is not None
        self._content, self._staged = staged, None
        self._memory.list_ended()
        self.train(list_complete=True)
        self._undecodables = {k: bad for k, bad in self._undecodables.items() if self.get(k) is not None}
        return self._difference(before.objects, staged.objects, initial=initial)

    def _difference(self, before: _Objects, after: _Objects, *, initial: bool) -> Iterator[Change]:  # noqa: C901
        nothing: dict[str, bytes] = {}
        for namespace, names in before.items():
            kept = after.get(namespace, nothing)
            for name, record in names.items():
                now = kept.get(name)
                if now is record:
                    continue
                last = Entry(self, Key(namespace, name), record)
                if now is None or Entry(self, last.key, now).uid != last.uid:
                    self._forget_deleted(last)
                    yield Change("delete", last.key, last, None)
        for namespace, names in after.items():
            had = before.get(namespace, nothing)
            for name, record in names.items():
                old = had.get(name)
                if old is record:
                    continue
                key = _new(Key, (namespace, name))
                entry = Entry(self, key, record)
                if old is None:
                    yield Change("add", key, None, entry, initial)
                    continue
                previous = Entry(self, key, old)
                if previous.uid != entry.uid:
                    yield Change("add", key, None, entry, initial)
                elif previous.resource_version != entry.resource_version:
                    yield Change("update", key, previous, entry)

    def declare(self, name: str, function: IndexFunction, view: View[Any] | None = None) -> None:
        """Add an index over current and later objects; raises `ValueError` for a second function of the same name."""
        known = self._content.declared.get(name)
        if known is not None:
            if known.function is not function:
                raise ValueError(f"{self.view.info.kind} already has another index named {name!r}")
            return
        for content in (self._content, self._staged):
            if content is None:
                continue
            declared = content.declared[name] = FunctionIndex(function, view or self.view)
            for namespace, names in content.objects.items():
                for object_name, record in names.items():
                    entry = Entry(self, Key(namespace, object_name), record)
                    declared.put(member_of(*entry.key), self._values(name, declared, entry))

    def compress(self, most: int, size: int = sys.maxsize, batch: int = sys.maxsize) -> int:
        """Compress the oldest `uncompressed` records, see `UncompressedRecords.compress`; return how many."""
        before = len(self.uncompressed)
        content = self._staged or self._content
        content.bytes -= self.uncompressed.compress(most, size, batch)
        return before - len(self.uncompressed)

    def train(self, *, list_complete: bool = False) -> None:
        """Train a dictionary if that pays; `list_complete` says that all objects are stored."""
        self._pool.train(list_complete=list_complete)
        content, own = self._staged or self._content, self._own_dictionary
        packed = content.bytes - self.uncompressed.bytes
        if own.outdated() if own is not None else packed >= self._own_dictionary_from_bytes:
            self._own_dictionary_from_bytes = 2 * packed
            if (learnt := self._codecs.train(self.sample(MAX_SAMPLES), than=self.codec)) is not None:
                self._own_dictionary = self.codec = learnt

    # For the pool.

    @property
    def kind(self) -> Hashable:
        """The kind and form, which are equal for stores of similar objects."""
        info = self.view.info
        return info.api_version, info.kind, self.view.form == "metadata"

    @property
    def staging(self) -> bool:
        """Whether a list is staged."""
        return self._staged is not None

    def amount(self) -> tuple[int, int]:
        """The objects and bytes for the shared dictionary; zero if the store has its own."""
        content = self._staged or self._content
        return (content.count, content.bytes) if self._own_dictionary is None else (0, 0)

    def sample(self, most: int) -> list[bytes]:
        """Return the JSON of up to `most` objects that are not large, evenly spread over the content."""
        content = self._staged or self._content
        everything = chain.from_iterable([names.values() for names in content.objects.values()])
        some = islice(everything, 0, None, max(1, content.count // max(1, most)))
        return [
            self.body_of(record) for record in islice(some, most) if records.plain_size(record) < LARGE_OBJECT_BYTES
        ]

    def recompress(self) -> None:
        """Compress the records that were stored before there was a dictionary."""
        for content in (self._content, self._staged):
            if content is not None:
                for names in content.objects.values():
                    for name, record in names.items():
                        if records.plain_size(record) < LARGE_OBJECT_BYTES:
                            packed = names[name] = self._compress_record(record)
                            content.bytes += len(packed) - len(record)

    # Parts.

    def _put(
        self,
        content: _Staged,
        names: dict[str, bytes] | None,
        old: bytes | None,
        key: Key,
        meta: Meta,
        body: bytes,
        *,
        owned: bool,
        guessed: bool,
    ) -> Entry:
        """Store an object in place of `old`, which has owners if `owned`."""
        if self.transform is not None:
            body = self.transform(body)
        size = len(body)
        codec = self.codec
        later = codec.trained or size >= LARGE_OBJECT_BYTES
        number, payload = (PLAIN, body) if later else codec.encode(body)
        head, facts = encode_header(meta, size, number, guessed=guessed)
        record = head + payload
        if names is None or old is None or owned or meta.owner_references:
            names = self._keep(content, names, old, meta, record)
        else:
            names[meta.name] = record
            content.bytes += len(record) - len(old)
        if later:
            content.bytes -= self.uncompressed.add(key, names, record)
        entry = Entry(self, key, record, body, facts)
        if content.declared:
            self._index(content, entry)
        return entry

    def _keep(
        self, content: _Staged, names: dict[str, bytes] | None, old: bytes | None, meta: Meta, record: bytes
    ) -> dict[str, bytes]:
        """Store a record in place of `old`, in the `names` of its namespace, which are returned."""
        if names is None:
            names = content.objects[meta.namespace] = {}
        names[meta.name] = record
        if old is None:
            content.count += 1
            content.bytes += len(record)
        else:
            content.bytes += len(record) - len(old)
        if meta.owner_references or (old is not None and records.has_owners(old)):
            self._update_owners(content, Key(meta.namespace, meta.name), old, record)
        return names

    def _index(self, content: _Staged, entry: Entry) -> None:
        member = member_of(*entry.key)
        for name, declared in content.declared.items():
            declared.put(member, self._values(name, declared, entry))

    def _update_owners(self, content: _Staged, key: Key, old: bytes | None, new: bytes | None) -> None:
        before: tuple[str, ...] = records.decode_header(old)[3][2:] if old is not None else ()
        after: tuple[str, ...] = records.decode_header(new)[3][2:] if new is not None else ()
        if before == after:
            return
        member = member_of(*key)
        for uid in before:
            content.owners.discard(uid, member)
        for uid in after:
            content.owners.add(uid, member)

    def _drop(self, content: _Staged, key: Key, record: bytes) -> None:
        names = content.objects[key[0]]
        del names[key[1]]
        if not names:
            del content.objects[key[0]]
        content.count -= 1
        content.bytes -= len(record)
        self.uncompressed.forget(key)
        if records.has_owners(record):
            self._update_owners(content, key, record, None)
        for declared in content.declared.values():
            declared.discard(member_of(*key))

    def _forget_deleted(self, entry: Entry) -> None:
        self._remember_deleted_uid(entry.uid)
        if self._undecodables:
            self._undecodables.pop(entry.key, None)

    def _remember_deleted_uid(self, uid: str) -> None:
        if uid:
            self._deleted_uids[uid] = None
            if len(self._deleted_uids) > MAX_REMEMBERED_UIDS:
                del self._deleted_uids[next(iter(self._deleted_uids))]

    def _values(self, name: str, declared: FunctionIndex, entry: Entry) -> str | tuple[str, ...]:
        try:
            values = declared.function(entry.object(declared.view))
            return values if isinstance(values, str) else tuple(values or ())
        except UndecodableError:
            return ()
        except Exception as problem:  # noqa: BLE001 - a user's function must not end the stream (R1)
            self._on_index_error(name, entry.key, problem)
            return ()

    def _compress_record(self, record: bytes) -> bytes:
        number, payload = records.encoded_payload(record)
        if number != PLAIN:
            return record
        number, packed = self.codec.encode(payload)
        return b"".join((bytes((number,)), record[1 : len(record) - len(payload)], packed))
