"""The store: every object of one kind and scope as compressed bytes, with the indexes to find them.

It is the one owner of cached state and is changed by one informer only, in the event loop's thread. It talks to
nobody: `apply` and `commit` say what changed, and the informer tells the handlers. Names, versions and owners live in
records and strings, which the garbage collector never visits.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeAlias, TypeVar, cast

from steersman.cache import hygiene, records
from steersman.cache.codecs import LARGE, PLAIN, Codec
from steersman.cache.entry import Change, Entry, UndecodableError
from steersman.cache.fresh import Fresh
from steersman.cache.index import Declared, Index, IndexFunction, key_of_member, member_of
from steersman.cache.pool import OWN, SAMPLE, Pool
from steersman.cache.records import head_of, simple_record
from steersman.cache.shareable import shareable
from steersman.cache.versions import older
from steersman.cache.wire import Body, Meta, Taken
from steersman.models import DecodeError, Key, KindLike, View, view_of

__all__ = ["Store", "Transform"]

T = TypeVar("T")
Transform: TypeAlias = Callable[[bytes], bytes]
"""Takes an object's JSON without managedFields and returns what the cache shall keep of it. Must leave apiVersion,
kind and metadata's name, namespace, uid and resourceVersion alone."""

_Objects: TypeAlias = dict[str, dict[str, bytes]]
_new: Final = cast("Callable[[type[Key], tuple[str, str]], Key]", cast(Any, tuple).__new__)
"""Makes a key of a pair: calling `Key` is a call of Python's more."""

HOT: Final = 512
"""Decoded objects that are kept."""
MUCH: Final = 4 * 1024 * 1024
"""Bytes of large objects in one list from which on they are worth huge pages."""
GONE: Final = 1024
"""Deleted objects whose uids are remembered, so that a late event does not bring one back."""


class _Staged:
    """A new content that is being collected beside the current one."""

    __slots__ = ("bytes", "count", "declared", "objects", "owners", "until_much")

    def __init__(self, declared: dict[str, Declared]) -> None:
        self.objects: _Objects = {}
        self.owners = Index()
        self.declared = {name: Declared(d.function, d.view) for name, d in declared.items()}
        self.count = 0
        self.bytes = 0
        self.until_much = MUCH
        """Bytes of large objects until huge pages are asked for, again."""


class Store:
    """All objects of one kind and scope."""

    def __init__(
        self,
        view: View[Any],
        *,
        transform: Transform | None = None,
        pool: Pool | None = None,
        on_undecodable: Callable[[UndecodableError], None] = lambda _problem: None,
        on_index_error: Callable[[str, Key, Exception], None] = lambda _index, _key, _problem: None,
    ) -> None:
        self.view = view
        self.transform = transform
        self._content = _Staged({})
        self._staged: _Staged | None = None
        self._pool = pool or Pool()
        self._codecs = self._pool.codecs
        self.codec: Codec = self._codecs.untaught
        """What new records are written with, unless they are to stay plain for a while."""
        self._own: Codec | None = None
        self._own_from = OWN
        self._seat = self._pool.join(self)
        self.fresh = Fresh(self._packed, self._pool.plain)
        """New records, still plain; to be settled after a while."""
        self._hot: OrderedDict[tuple[Any, Key], tuple[bytes, Any]] = OrderedDict()
        self._gone: dict[str, None] = {}
        self._bad: dict[Key, UndecodableError] = {}
        self._on_undecodable = on_undecodable
        self._on_index_error = on_index_error

    # Reading.

    def __len__(self) -> int:
        return self._content.count

    @property
    def size(self) -> int:
        """Bytes of all records; Python's own overhead of about 150 bytes an object comes on top."""
        return self._content.bytes

    def get(self, key: Key) -> Entry | None:
        """The entry of a key."""
        names = self._content.objects.get(key[0])
        record = names.get(key[1]) if names is not None else None
        return None if record is None else Entry(self, key if key.__class__ is Key else Key(*key), record)

    def entries(self, namespace: str | None = None) -> Iterator[Entry]:
        """All entries, or those of a namespace, as of now: later changes do not show."""
        objects = self._content.objects
        spaces = tuple(objects) if namespace is None else (namespace,)
        for space, names in [(s, tuple(objects.get(s, {}).items())) for s in spaces]:
            for name, record in names:
                yield Entry(self, Key(space, name), record)

    def by_owner(self, uid: str) -> list[Entry]:
        """The objects that have the object of that uid among their owners."""
        return self._found(self._content.owners.find(uid))

    def by_index(self, name: str, value: str) -> list[Entry]:
        """The objects under a value of a declared index; raises `KeyError` for an index that was not declared."""
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
        """The JSON of a record."""
        codec, payload = records.payload_of(record)
        return payload if codec == PLAIN else self._codecs.decode(codec, payload)

    def read(self, entry: Entry, kind: KindLike[T], *, keep: bool = True) -> T:
        """The entry decoded in a view, from the hot ones where possible; raises `UndecodableError`.

        `keep` adds it to those. What is read once a version should not be: it would drive out what is read often, and
        by the time it is driven out itself, its memory has left the processor's caches.
        """
        view = kind if isinstance(kind, View) else view_of(kind)
        seen_as: Any = view.type
        slot = (seen_as, entry.key)
        if self._hot and (hot := self._hot.get(slot)) is not None and hot[0] is entry.record:
            self._hot.move_to_end(slot)
            return hot[1]
        try:
            value = view.decode(entry.raw())
        except DecodeError as problem:
            raise self.undecodable(entry, problem) from None
        if keep and shareable(seen_as):
            self._hot[slot] = (entry.record, value)
            if len(self._hot) > HOT:
                self._hot.popitem(last=False)
        return value

    def undecodable(self, entry: Entry, problem: DecodeError) -> UndecodableError:
        """The error for an entry that does not fit its type; reports each version once."""
        known = self._bad.get(entry.key)
        if known is not None and known.resource_version == entry.resource_version:
            return known
        info = self.view.info
        error = UndecodableError(info.kind, entry.key, entry.resource_version, problem.message, problem.path)
        self._bad[entry.key] = error
        self._on_undecodable(error)
        return error

    @property
    def undecodables(self) -> tuple[UndecodableError, ...]:
        """What of the current content was found not to fit its type."""
        return tuple(self._bad.values())

    # Changing.

    def apply(self, event: str, meta: Meta, body: bytes, guessed: bool = False) -> tuple[Change, ...]:
        """Take in one watch event ("ADDED", "MODIFIED", "DELETED"); returns what changed, in order.

        Duplicates and events older than what is kept change nothing, nor does a late event of an object that is gone.
        """
        content = self._content
        names = content.objects.get(meta.namespace)
        old = names.get(meta.name) if names is not None else None
        if event == "DELETED":
            return self._deleted(old, meta, body, guessed)
        key = _new(Key, (meta.namespace, meta.name))
        uid, version = meta.uid, meta.resource_version
        if old is None:
            if uid in self._gone:
                return ()
            return (Change("add", key, None, self._put(content, names, None, False, key, meta, body, guessed)),)
        facts = records.header_of(old)
        texts = facts[3]
        known = texts[1]
        # Nearly always newer, and of as many digits: no call is needed to see it.
        if (len(version) != len(known) or version <= known) and older(version, known):
            return ()
        before = Entry(self, key, old, None, facts)
        owned = len(texts) > 2
        if texts[0] == uid:
            if version == known and known:
                return ()
            new = self._put(content, names, old, owned, key, meta, body, guessed)
            return (Change("update", key, before, new),)
        if uid in self._gone:
            return ()
        self._bury(before)
        return (
            Change("delete", key, before, None),
            Change("add", key, None, self._put(content, names, old, owned, key, meta, body, guessed)),
        )

    def _deleted(self, old: bytes | None, meta: Meta, body: bytes, guessed: bool) -> tuple[Change, ...]:
        key = Key(meta.namespace, meta.name)
        if old is None or not records.same_object(old, meta):
            self._remember_gone(meta.uid)
            return ()
        # The event carries the final state, which is newer than ours.
        if self.transform is not None:
            body = self.transform(body)
        head, facts = head_of(meta, len(body), guessed, PLAIN)
        last = Entry(self, key, head + body, body, facts)
        self._drop(self._content, key, old)
        self._bury(last)
        return (Change("delete", key, last, None),)

    def clear(self) -> Iterator[Change]:
        """Drop everything; yields the deletes."""
        self.begin()
        return self.commit()

    def begin(self) -> None:
        """Start to collect a new content beside the current one, which readers keep seeing (W2)."""
        self.settle(len(self.fresh))  # what the new content takes over is not looked for again
        self._staged = _Staged(self._content.declared)

    def stage_all(self, events: Sequence[Taken]) -> None:
        """`stage` for many: what nearly all objects of a first list need is done right here."""
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
                or (length := len(body)) >= LARGE
            ):
                self.stage(event, meta, body, guessed)
                continue
            payload = body if pack is None else pack(body)
            names[meta.name] = record = simple_record(meta, length, number, payload)
            count += 1
            size += len(record)
            raw += length
            packed += len(payload)
        staged.count += count
        staged.bytes += size
        codec.raw += raw
        codec.packed += packed

    def stage(self, event: str, meta: Meta, body: Body, guessed: bool = False) -> None:
        """Take one object, or an event about one, into the new content; `body` may be in pieces."""
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
            if size >= LARGE:
                self._stage_large(staged, names, old, meta, body, guessed)
                return
            raw = body if type(body) is bytes else bytes(body)
            codec = self.codec
            payload = codec.small(raw)
            record = head_of(meta, size, guessed, codec.number)[0] + payload
        self._keep(staged, names, old, meta, record)
        if staged.declared:
            self._index(staged, Entry(self, Key(namespace, name), record, raw))

    def _stage_large(
        self, staged: _Staged, names: dict[str, bytes] | None, old: bytes | None, meta: Meta, body: Body, guessed: bool
    ) -> None:
        """Take in an object that stays as it is for a while."""
        record = records.long_record(head_of(meta, len(body), guessed, PLAIN)[0], body)
        key = Key(meta.namespace, meta.name)
        names = self._keep(staged, names, old, meta, record)
        staged.bytes -= self.fresh.add(key, names, record)
        staged.until_much -= len(record)
        if staged.until_much <= 0:
            staged.until_much = hygiene.EACH
            hygiene.huge_pages()
        if staged.declared:
            self._index(staged, Entry(self, key, record, bytes(body)))

    def _unchanged(self, meta: Meta) -> bytes | None:
        """The current record, if it is of that version of that object."""
        names = self._content.objects.get(meta.namespace)
        record = names.get(meta.name) if names is not None else None
        return record if record is not None and records.same_version(record, meta) else None

    def discard(self) -> None:
        """Forget the new content."""
        if self._staged is not None:
            self._staged = None
            self.fresh.clear()
            hygiene.small_pages()

    def commit(self, *, initial: bool = False) -> Iterator[Change]:
        """Swap the new content in, in one step, and yield how it differs: deletes first, then adds and updates (W5).

        The swap is done when this returns; the iterator only tells.
        """
        staged, before = self._staged, self._content
        assert staged is not None
        self._content, self._staged = staged, None
        hygiene.small_pages()
        self.tidy(settled=True)
        self._bad = {k: bad for k, bad in self._bad.items() if self.get(k) is not None}
        return self._difference(before.objects, staged.objects, initial)

    def _difference(self, before: _Objects, after: _Objects, initial: bool) -> Iterator[Change]:  # noqa: C901
        nothing: dict[str, bytes] = {}
        for namespace, names in before.items():
            kept = after.get(namespace, nothing)
            for name, record in names.items():
                now = kept.get(name)
                if now is record:
                    continue
                last = Entry(self, Key(namespace, name), record)
                if now is None or Entry(self, last.key, now).uid != last.uid:
                    self._bury(last)
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
        """Add an index over what is there and what comes; raises `ValueError` for a second function of one name."""
        known = self._content.declared.get(name)
        if known is not None:
            if known.function is not function:
                raise ValueError(f"{self.view.info.kind} already has another index named {name!r}")
            return
        for content in (self._content, self._staged):
            if content is None:
                continue
            declared = content.declared[name] = Declared(function, view or self.view)
            for namespace, names in content.objects.items():
                for object_name, record in names.items():
                    entry = Entry(self, Key(namespace, object_name), record)
                    declared.put(member_of(*entry.key), self._values(name, declared, entry))

    def settle(self, most: int, size: int = sys.maxsize, turn: int = sys.maxsize) -> int:
        """Pack the oldest of the records that are `fresh`, see there; returns how many."""
        before = len(self.fresh)
        content = self._staged or self._content
        content.bytes -= self.fresh.settle(most, size, turn)
        return before - len(self.fresh)

    def tidy(self, *, settled: bool = False) -> None:
        """See to it that records are packed as well as it pays to; `settled` says that all objects are here."""
        self._pool.tidy(settled=settled)
        content, own = self._staged or self._content, self._own
        packed = content.bytes - self.fresh.bytes
        if own.outdated() if own is not None else packed >= self._own_from:
            self._own_from = 2 * packed
            if (learnt := self._codecs.learn(self.sample(SAMPLE), than=self.codec)) is not None:
                self._own = self.codec = learnt

    # For the pool.

    @property
    def kind(self) -> Hashable:
        """What stores of objects that are alike have in common."""
        info = self.view.info
        return info.api_version, info.kind, self.view.form == "metadata"

    @property
    def staging(self) -> bool:
        """Whether a new content is being collected."""
        return self._staged is not None

    def amount(self) -> tuple[int, int]:
        """The objects and bytes that the shared dictionary is for."""
        content = self._staged or self._content
        return (content.count, content.bytes) if self._own is None else (0, 0)

    def sample(self, most: int) -> list[bytes]:
        """The JSON of up to so many objects, from all over the content; large ones are left out."""
        content = self._staged or self._content
        everything = chain.from_iterable([names.values() for names in content.objects.values()])
        some = islice(everything, 0, None, max(1, content.count // max(1, most)))
        return [self.body_of(record) for record in islice(some, most) if records.size_of(record) < LARGE]

    def repack(self) -> None:
        """Pack what has stayed plain for want of a dictionary."""
        for content in (self._content, self._staged):
            if content is not None:
                for names in content.objects.values():
                    for name, record in names.items():
                        if records.size_of(record) < LARGE:
                            packed = names[name] = self._packed(record)
                            content.bytes += len(packed) - len(record)

    # Parts.

    def _put(
        self,
        content: _Staged,
        names: dict[str, bytes] | None,
        old: bytes | None,
        owned: bool,
        key: Key,
        meta: Meta,
        body: bytes,
        guessed: bool,
    ) -> Entry:
        """Put an object in the place of `old`, which is `owned` or not."""
        if self.transform is not None:
            body = self.transform(body)
        size = len(body)
        codec = self.codec
        fresh = codec.trained or size >= LARGE
        number, payload = (PLAIN, body) if fresh else codec.encode(body)
        head, facts = head_of(meta, size, guessed, number)
        record = head + payload
        if names is None or old is None or owned or meta.owner_references:
            names = self._keep(content, names, old, meta, record)
        else:
            names[meta.name] = record
            content.bytes += len(record) - len(old)
        if fresh:
            content.bytes -= self.fresh.add(key, names, record)
        entry = Entry(self, key, record, body, facts)
        if content.declared:
            self._index(content, entry)
        return entry

    def _keep(
        self, content: _Staged, names: dict[str, bytes] | None, old: bytes | None, meta: Meta, record: bytes
    ) -> dict[str, bytes]:
        """Put a record in its place, where `old` is now, among the `names` of its namespace; returns these."""
        if names is None:
            names = content.objects[meta.namespace] = {}
        names[meta.name] = record
        if old is None:
            content.count += 1
            content.bytes += len(record)
        else:
            content.bytes += len(record) - len(old)
        if meta.owner_references or (old is not None and records.has_owners(old)):
            self._reown(content, Key(meta.namespace, meta.name), old, record)
        return names

    def _index(self, content: _Staged, entry: Entry) -> None:
        member = member_of(*entry.key)
        for name, declared in content.declared.items():
            declared.put(member, self._values(name, declared, entry))

    def _reown(self, content: _Staged, key: Key, old: bytes | None, new: bytes | None) -> None:
        before: tuple[str, ...] = records.header_of(old)[3][2:] if old is not None else ()
        after: tuple[str, ...] = records.header_of(new)[3][2:] if new is not None else ()
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
        self.fresh.forget(key)
        if records.has_owners(record):
            self._reown(content, key, record, None)
        for declared in content.declared.values():
            declared.discard(member_of(*key))

    def _bury(self, entry: Entry) -> None:
        self._remember_gone(entry.uid)
        if self._bad:
            self._bad.pop(entry.key, None)

    def _remember_gone(self, uid: str) -> None:
        if uid:
            self._gone[uid] = None
            if len(self._gone) > GONE:
                del self._gone[next(iter(self._gone))]

    def _values(self, name: str, declared: Declared, entry: Entry) -> str | tuple[str, ...]:
        try:
            values = declared.function(self.read(entry, declared.view))
            return values if isinstance(values, str) else tuple(values or ())
        except UndecodableError:
            return ()
        except Exception as problem:  # noqa: BLE001 - a user's function must not end the stream (R1)
            self._on_index_error(name, entry.key, problem)
            return ()

    def _packed(self, record: bytes) -> bytes:
        number, payload = records.payload_of(record)
        if number != PLAIN:
            return record
        number, packed = self.codec.encode(payload)
        return b"".join((bytes((number,)), record[1 : len(record) - len(payload)], packed))
