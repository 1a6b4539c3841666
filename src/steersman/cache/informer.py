"""The informer: takes in the bytes of one kind and scope, keeps the store, and tells the handlers what changed.

`feed` is the hot path, one synchronous pass: bytes, store, handlers, and with them the work queues. An informer does
no I/O of its own; its shell reads the bytes and drives the reflector. One informer serves every view of its kind, and
keeps whole objects as soon as one of them needs more than metadata (W11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from steersman.cache.consistency import OwnWrites
from steersman.cache.entry import Change, Entry, NotCachedError, UndecodableError
from steersman.cache.hygiene import give_back
from steersman.cache.index import IndexFunction
from steersman.cache.lines import Line
from steersman.cache.metrics import InformerMetrics
from steersman.cache.partial import REMEDY, MetadataStore
from steersman.cache.pool import Pool
from steersman.cache.store import Store, Transform
from steersman.cache.versions import at_least, later
from steersman.cache.wire import Taken, error_of, event_of, initial_end, item_of, items_of, type_prefix
from steersman.client.errors import ApiError
from steersman.models import Key, View
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["Fed", "Handler", "Informer", "Scope"]

Handler: TypeAlias = Callable[[Change], None]
"""Hears of every change, in order, in the same pass in which its bytes arrive. What it raises is logged and counted."""

SLICE: Final = 1000
"""Changes told in one go after a list; between two slices the event loop gets its turn."""

MANY: Final = 5000
"""Objects from which on a list leaves enough free memory behind to be worth returning."""

_log = get_logger("cache")


class Scope(NamedTuple):
    """Which objects of a kind an informer keeps."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (f"namespace={self.namespace}" if self.namespace else "", self.labels, self.fields)
        return " ".join(p for p in parts if p)

    @property
    def selects(self) -> bool:
        """Whether a selector hides objects of the namespace (or cluster)."""
        return bool(self.labels or self.fields)


class Fed(NamedTuple):
    """The initial events have ended: up to which version they reach, and what came after them."""

    version: str
    rest: Sequence[Line]


class Informer:
    """All objects of one kind and scope, kept current.

    Reads are synchronous, and complete and consistent as of one moment once `synced`. Before that they are empty; while
    an informer of metadata widens to whole objects, metadata is read as it was when that began.
    """

    def __init__(
        self,
        view: View[Any],
        scope: Scope | None = None,
        *,
        transform: Transform | None = None,
        pool: Pool | None = None,
        now: Now = utc_now,
    ) -> None:
        info = view.info
        self.view = view
        """The view that it was declared with, or widened to; its form is what the server is asked for."""
        self.info = info
        self.scope = scope = scope or Scope()
        self.kind = f"{info.kind}.{info.group}" if info.group else info.kind
        self.transform = transform
        self._pool = pool or Pool()
        self.store = self._new_store()
        """What reads are answered from."""
        self.writes = OwnWrites(self)
        self.metrics = InformerMetrics(self.kind, str(scope))
        self.version = ""
        """Everything up to this resourceVersion has been taken in."""
        self.problem = ""
        """What keeps the watch from running at the moment; empty when nothing does."""
        self.parked = False
        """Whether the server does not serve the kind (W10)."""
        self._now = now
        self._heard: datetime | None = None
        self._indexes: dict[str, tuple[IndexFunction, View[Any]]] = {}
        self._collecting = self.store  # another than `store` only while it widens
        self._widening = False
        self._filled = False
        self._when_told: Callable[[], None] | None = None
        self._handlers: tuple[Handler, ...] = ()
        self._joining: list[Handler] = []
        self._telling = False
        self._synced = asyncio.Event()
        self._closed = False
        self._staging = False
        self._log = _log

    # For readers.

    @property
    def synced(self) -> bool:
        """Whether the content is in the store, in the form that is asked for, and all handlers heard of it (C3)."""
        return self._synced.is_set() and not self._closed

    @property
    def last_event(self) -> float:
        """When the server last said anything, in seconds of the wall clock; 0 before that."""
        return self._heard.timestamp() if self._heard is not None else 0.0

    async def wait_synced(self) -> None:
        """Return as soon as `synced`, after widening once more; or when the cache drops the informer."""
        await self._synced.wait()

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, or `None`."""
        return self.store.get(key)

    def entries(self, namespace: str | None = None) -> Iterator[Entry]:
        """All entries, or those of a namespace, as of now."""
        return self.store.entries(namespace)

    def owned_by(self, uid: str) -> list[Entry]:
        """The entries with that owner (C5)."""
        return self.store.by_owner(uid)

    def indexed(self, name: str, value: str) -> list[Entry]:
        """The entries under a value of a declared index; raises `KeyError` for an unknown index.

        Raises `NotCachedError` for an index over whole objects before these have been listed.
        """
        if self._widening and (declared := self._indexes.get(name)) is not None and not _fits(self.store, declared[1]):
            raise NotCachedError(
                f"{self.kind} is still being listed: the index {name!r} is over whole objects: {REMEDY}"
            )
        return self.store.by_index(name, value)

    def has_index(self, name: str) -> bool:
        """Whether an index of that name has been declared."""
        return name in self._indexes

    def declare_index(self, name: str, function: IndexFunction, view: View[Any] | None = None) -> None:
        """Add an index over objects in `view`.

        Raises `ValueError` when the name has another function, or when `view` shows more than the metadata that is
        kept.
        """
        view = view or self.view
        if not self.whole and view.form != "metadata":
            raise ValueError(
                f"{self.kind}: the index {name!r} is over whole objects, but only metadata is kept: {REMEDY}"
            )
        for store in {self.store, self._collecting}:
            if _fits(store, view):
                store.declare(name, function, view)
        self._indexes.setdefault(name, (function, view))

    def __len__(self) -> int:
        return len(self.store)

    @property
    def undecodables(self) -> tuple[UndecodableError, ...]:
        """The present objects that somebody tried to read and that do not fit their type (W9)."""
        return self.store.undecodables

    def seen(self, key: Key, resource_version: str) -> bool:
        """Whether that version of an object, or a newer one, has been taken in; deletes count."""
        entry = self.get(key)
        if entry is not None and at_least(entry.resource_version, resource_version):
            return True
        return at_least(self.version, resource_version)

    def add_handler(self, handler: Handler) -> None:
        """Tell `handler` of everything that is there, as initial adds, and of all changes from now on.

        While the informer widens to whole objects, that begins when these are there.
        """
        if self._closed:
            return
        if self._telling or self._widening:
            self._joining.append(handler)
            return
        if self.synced:
            self._introduce(handler)
        self._handlers = (*self._handlers, handler)

    def remove_handler(self, handler: Handler) -> None:
        """Tell `handler` nothing more; ignores one that was not added."""
        self._handlers = tuple(h for h in self._handlers if h != handler)
        self._joining = [h for h in self._joining if h != handler]

    # For the shell and the cache.

    def close(self) -> None:
        """Tell nobody anything any more, and let nobody wait for anything."""
        self._closed = True
        self._handlers, self._joining = (), []
        self._synced.set()
        self.writes.give_up()

    @property
    def whole(self) -> bool:
        """Whether whole objects are asked for, and not only their metadata."""
        return self.view.form != "metadata"

    def widen(self, view: View[Any]) -> None:
        """Ask for whole objects from the next list on; until that is complete, what there is answers metadata views.

        Handlers that are added from now on hear of whole objects only. Those that were there hear of what changed,
        and not of objects of which there is only more to be seen.
        """
        self.discard()
        self.view = view
        store = self._new_store()
        for name, (function, of) in self._indexes.items():
            store.declare(name, function, of)
        self._collecting = store
        if self._filled:
            self._widening = True
            self._synced.clear()
        else:
            self.store = store

    def when_told(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as no handler is in the middle of being told of a list."""
        if self._telling:
            self._when_told = then
        else:
            then()

    def begin(self) -> None:
        """Collect a new content."""
        self._collecting.begin()
        self._staging = True

    def discard(self) -> None:
        """Forget the content that is being collected."""
        self._collecting.discard()
        self._staging = False

    def feed(self, lines: Sequence[Line]) -> Fed | None:  # noqa: C901 - the hot path is one loop
        """Take in whole lines of a watch stream; stops after the bookmark that ends the initial events, and says so.

        Raises the `ApiError` of an ERROR event and `MalformedStreamError`; what came before it is taken in and
        `version` says how far.
        """
        if self._staging:
            return self._collect(lines)
        apply = self.store.apply
        handlers, writes = self._handlers, self.writes
        version = self.version
        taken = 0
        try:
            for line in lines:
                taken += 1
                if not line:
                    continue
                event, meta, body, guessed = event_of(line)
                if event == "BOOKMARK":
                    version = later(version, meta.resource_version)
                elif event == "ERROR":
                    raise self._error(body)
                else:
                    for change in apply(event, meta, body, guessed):
                        for handler in handlers:
                            try:
                                handler(change)
                            except Exception:  # noqa: BLE001 - a handler must not end the stream (R1)
                                self._handler_failed(change)
                            if self._closed:
                                return None
                    new = meta.resource_version
                    # Nearly always newer, and of as many digits: no call is needed to see it.
                    version = new if len(new) == len(version) and new >= version else later(version, new)
                    if writes.listens:
                        writes.saw((meta.namespace, meta.name), new)
        finally:
            self.version = version
            self._took_in(taken)
        return None

    def _collect(self, lines: Sequence[Line]) -> Fed | None:
        """`feed` while a new content is collected; the version stays that of the content which readers see."""
        events: list[Taken] = []
        taken = 0
        try:
            for line in lines:
                taken += 1
                event = event_of(line, True)
                if event[0] == "BOOKMARK":
                    if initial_end(line):
                        return Fed(event[1].resource_version, lines[taken:])
                elif event[0] == "ERROR":
                    raise self._error(bytes(event[2]))
                else:
                    events.append(event)
        finally:
            self._collecting.stage_all(events)
            self._took_in(taken)
        return None

    def _error(self, body: bytes) -> ApiError:
        return error_of(body, f"WATCH {self.info.path(self.scope.namespace)}")

    def stage_page(self, page: bytes) -> tuple[str, str]:
        """Take one page of a list into the new content; its version and the token of the next.

        Raises `MalformedStreamError`.
        """
        version, token, items = items_of(page)
        stage = self._collecting.stage
        prefix = type_prefix(self.info.api_version, self.info.kind)
        for item in items:
            meta, body, guessed = item_of(bytes(item), prefix)
            stage("ADDED", meta, body, guessed)
        self._took_in(len(items))
        return version, token

    async def commit(self, version: str) -> None:
        """Swap the new content in at once, then tell the handlers; `synced` when they have all heard (C3)."""
        self._staging = False
        self.metrics.relists.inc()
        before = self.store
        changes = self._collecting.commit(initial=not self._filled)
        if self._widening:
            assert isinstance(before, MetadataStore)
            self.store, self._widening = self._collecting, False
            changes = before.give_way(self.store)
        self._filled = True
        self.version = version
        await self._tell_all(changes)
        if before is not self.store:
            before.clear()  # an entry that somebody keeps shall not keep everything
        if not self._widening:  # which a handler may have asked for
            self._synced.set()
        if len(self.store) >= MANY:
            give_back()

    async def clear(self) -> None:
        """Drop everything, with deletes to the handlers (W10)."""
        self._staging = False
        await self._tell_all(self.store.clear())

    async def _tell_all(self, changes: Iterator[Change]) -> None:
        self._telling = True
        try:
            while part := list(islice(changes, SLICE)):
                for change in part:
                    for handler in self._handlers:
                        if self._closed:
                            break
                        try:
                            handler(change)
                        except Exception:  # noqa: BLE001 - a handler must not end the stream (R1)
                            self._handler_failed(change)
                if len(part) == SLICE:
                    await asyncio.sleep(0)
        finally:
            self._telling = False
        if self.writes.active:
            self.writes.advance(relisted=True)
        if (then := self._when_told) is not None:
            self._when_told = None
            then()
        if not self._widening:  # who joins while it widens waits for whole objects
            self._let_join()

    def _let_join(self) -> None:
        joining, self._joining = self._joining, []
        for handler in joining:
            if self._closed:
                return
            self._introduce(handler)
            self._handlers = (*self._handlers, handler)

    def _new_store(self) -> Store:
        kept = Store if self.whole else MetadataStore
        return kept(
            self.view,
            transform=self.transform,
            pool=self._pool,
            on_undecodable=self._undecodable,
            on_index_error=self._index_failed,
        )

    def _introduce(self, handler: Handler) -> None:
        """Tell `handler` of everything that is there."""
        for entry in self.entries():
            change = Change("add", entry.key, None, entry, initial=True)
            try:
                handler(change)
            except Exception:  # noqa: BLE001 - a handler must not end the stream (R1)
                self._handler_failed(change)

    def _took_in(self, events: int) -> None:
        self._heard = self._now()
        self.metrics.events.value += events
        self._collecting.tidy()
        if self.writes.active:
            self.writes.advance()

    # What went wrong with single objects.

    def _handler_failed(self, change: Change) -> None:
        self.metrics.handler_errors.inc()
        self._log.exception(
            "a handler failed",
            kind=self.kind,
            namespace=change.key.namespace,
            name=change.key.name,
            change=change.type,
        )

    def _index_failed(self, index: str, key: Key, problem: Exception) -> None:
        self.metrics.handler_errors.inc()
        self._log.error(
            "an index function failed: the object is not in that index",
            kind=self.kind,
            namespace=key.namespace,
            name=key.name,
            index=index,
            exc_info=problem,
        )

    def _undecodable(self, error: UndecodableError) -> None:
        self.metrics.undecodable.inc()
        self._log.error(
            "an object does not fit its type: it is kept, and read as undecodable",
            kind=self.kind,
            namespace=error.key.namespace,
            name=error.key.name,
            resource_version=error.resource_version,
            path=error.path,
            problem=error.problem,
        )


def _fits(store: Store, view: View[Any]) -> bool:
    """Whether the store has what the view shows."""
    return view.form == "metadata" or store.view.form != "metadata"
