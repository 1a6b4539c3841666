"""The informer: stores the objects of one kind and scope from the watch's bytes, and calls the change handlers.

`feed` is the hot path: one synchronous pass from bytes through the store to the handlers and their work queues. The
informer does no I/O; its reflector loop reads the bytes. One informer serves all views of its kind, and stores whole
objects as soon as one view needs more than metadata (W11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from steersman.cache.consistency import OwnWrites
from steersman.cache.dictionaries import DictionaryPool
from steersman.cache.entry import Change, Entry, NotCachedError, UndecodableError
from steersman.cache.index import IndexFunction
from steersman.cache.lines import Line
from steersman.cache.memory import NO_MEMORY_POLICY, MemoryPolicy
from steersman.cache.metadata_store import WHOLE_OBJECTS_HINT, MetadataStore
from steersman.cache.metrics import InformerMetrics
from steersman.cache.store import Store, Transform
from steersman.cache.versions import at_least, later
from steersman.cache.wire import (
    ParsedEvent,
    ends_initial_events,
    error_from_event,
    parse_event,
    parse_item,
    parse_page,
    type_prefix,
)
from steersman.client.errors import ApiError
from steersman.models import Key, View
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["Handler", "Informer", "InitialEventsEnd", "Scope"]

Handler: TypeAlias = Callable[[Change], None]
"""Receives every change, in order, in the same pass in which its bytes arrive.

Its exceptions are logged and counted.
"""

CHANGES_PER_SLICE: Final = 1000
"""Changes of a list between which the handlers do not yield to the event loop."""

_log = get_logger("cache")


class Scope(NamedTuple):
    """Selects the objects of a kind that an informer stores."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (f"namespace={self.namespace}" if self.namespace else "", self.labels, self.fields)
        return " ".join(p for p in parts if p)

    @property
    def selects(self) -> bool:
        """Whether a selector excludes objects of the namespace (or cluster)."""
        return bool(self.labels or self.fields)


class InitialEventsEnd(NamedTuple):
    """The end of the initial events: their resourceVersion, and the lines after them."""

    version: str
    rest: Sequence[Line]


class Informer:
    """All objects of one kind and scope, kept current by a watch.

    Reads are synchronous. Once `synced`, they are complete and consistent as of one point in time; before that, they
    are empty. While an informer of metadata widens to whole objects, it still returns the metadata from before.
    """

    def __init__(
        self,
        view: View[Any],
        scope: Scope | None = None,
        *,
        transform: Transform | None = None,
        pool: DictionaryPool | None = None,
        memory: MemoryPolicy = NO_MEMORY_POLICY,
        now: Now = utc_now,
    ) -> None:
        info = view.info
        self.view = view
        """The view of the declaration, or the wider one of a later declaration; requests have its form."""
        self.info = info
        self.scope = scope = scope or Scope()
        self.kind = f"{info.kind}.{info.group}" if info.group else info.kind
        self.transform = transform
        self._pool = pool or DictionaryPool()
        self._memory = memory
        self.store = self._new_store()
        """The store that reads use."""
        self.writes = OwnWrites(self)
        self.metrics = InformerMetrics(self.kind, str(scope))
        self.version = ""
        """The resourceVersion up to which all events have been processed."""
        self.problem = ""
        """The reason why the watch is not running; empty if it is."""
        self.parked = False
        """Whether the informer waits because the server does not serve the kind (W10)."""
        self._now = now
        self._last_received: datetime | None = None
        self._indexes: dict[str, tuple[IndexFunction, View[Any]]] = {}
        self._staging_store = self.store  # differs from `store` only while the informer widens
        self._widening = False
        self._filled = False
        self._after_notification: Callable[[], None] | None = None
        self._handlers: tuple[Handler, ...] = ()
        self._pending_handlers: list[Handler] = []
        self._notifying = False
        self._synced = asyncio.Event()
        self._closed = False
        self._staging = False
        self._log = _log

    # For readers.

    @property
    def synced(self) -> bool:
        """Whether the store has the complete list in the required form, and all handlers have received it (C3)."""
        return self._synced.is_set() and not self._closed

    @property
    def last_event(self) -> float:
        """The time of the last bytes from the server, in seconds of the wall clock; 0 before the first."""
        return self._last_received.timestamp() if self._last_received is not None else 0.0

    async def wait_synced(self) -> None:
        """Return when `synced`, or when the cache drops the informer."""
        await self._synced.wait()

    def get(self, key: Key) -> Entry | None:
        """Return the entry of a key, or `None`."""
        return self.store.get(key)

    def entries(self, *, namespace: str | None = None) -> Iterator[Entry]:
        """Iterate over all current entries, or those of a namespace."""
        return self.store.entries(namespace)

    def owned_by(self, uid: str) -> list[Entry]:
        """Return the entries with an owner of that uid (C5)."""
        return self.store.by_owner(uid)

    def indexed(self, name: str, value: str) -> list[Entry]:
        """Return the entries with a value of a declared index.

        Raises:
            KeyError: The index is not declared.
            NotCachedError: The index is over whole objects, which are still being listed.
        """
        if self._widening and (declared := self._indexes.get(name)) is not None and not _fits(self.store, declared[1]):
            raise NotCachedError(
                f"{self.kind} is still being listed: the index {name!r} is over whole objects: {WHOLE_OBJECTS_HINT}"
            )
        return self.store.by_index(name, value)

    def has_index(self, name: str) -> bool:
        """Return whether an index of that name is declared."""
        return name in self._indexes

    def declare_index(self, name: str, function: IndexFunction, view: View[Any] | None = None) -> None:
        """Add an index over objects in `view`.

        Raises:
            ValueError: The name has another function, or `view` needs whole objects where only metadata is stored.
        """
        view = view or self.view
        if not self.whole and view.form != "metadata":
            raise ValueError(
                f"{self.kind}: index {name!r} is over whole objects, but only metadata is cached: {WHOLE_OBJECTS_HINT}"
            )
        for store in {self.store, self._staging_store}:
            if _fits(store, view):
                store.declare(name, function, view)
        self._indexes.setdefault(name, (function, view))

    def __len__(self) -> int:
        return len(self.store)

    @property
    def undecodables(self) -> tuple[UndecodableError, ...]:
        """The errors of the current objects that were read and do not fit their type (W9)."""
        return self.store.undecodables

    def seen(self, key: Key, resource_version: str) -> bool:
        """Return whether that version of an object, or a newer one or its deletion, has been processed."""
        entry = self.get(key)
        if entry is not None and at_least(entry.resource_version, resource_version):
            return True
        return at_least(self.version, resource_version)

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` with an initial add for each current object, and with all later changes.

        While the informer widens to whole objects, the calls begin when these are listed.
        """
        if self._closed:
            return
        if self._notifying or self._widening:
            self._pending_handlers.append(handler)
            return
        if self.synced:
            self._send_initial_adds(handler)
        self._handlers = (*self._handlers, handler)

    def remove_handler(self, handler: Handler) -> None:
        """Stop calling `handler`; a handler that was not added is ignored."""
        self._handlers = tuple(h for h in self._handlers if h != handler)
        self._pending_handlers = [h for h in self._pending_handlers if h != handler]

    # For the reflector loop and the cache.

    def close(self) -> None:
        """Stop calling handlers and release all waiters."""
        self._closed = True
        self._handlers, self._pending_handlers = (), []
        self._synced.set()
        self.writes.give_up()

    @property
    def whole(self) -> bool:
        """Whether the informer requests whole objects and not only metadata."""
        return self.view.form != "metadata"

    def widen(self, view: View[Any]) -> None:
        """Request whole objects from the next list on; until it is complete, metadata views read the old content.

        Handlers that are added later receive whole objects only. Existing handlers receive the objects that have
        changed since, and not those that are only more complete.
        """
        self.discard()
        self.view = view
        store = self._new_store()
        for name, (function, of) in self._indexes.items():
            store.declare(name, function, of)
        self._staging_store = store
        if self._filled:
            self._widening = True
            self._synced.clear()
        else:
            self.store = store

    def after_notification(self, then: Callable[[], None]) -> None:
        """Call `then` now, or after the handlers have received the list that is being sent to them."""
        if self._notifying:
            self._after_notification = then
        else:
            then()

    def begin(self) -> None:
        """Start to stage a list."""
        self._staging_store.begin()
        self._staging = True

    def discard(self) -> None:
        """Drop the staged list."""
        self._staging_store.discard()
        self._staging = False

    def feed(self, lines: Sequence[Line]) -> InitialEventsEnd | None:  # noqa: C901 - the hot path is one loop
        """Process lines of a watch stream, up to the bookmark that ends the initial events; it is returned if found.

        The lines before an error are processed, and `version` is that of the last one.

        Raises:
            ApiError: The stream has an ERROR event.
            MalformedStreamError: A line is not a watch event.
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
                event, meta, body, guessed = parse_event(line)
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
                    # Nearly always newer with as many digits, which needs no call.
                    version = new if len(new) == len(version) and new >= version else later(version, new)
                    if writes.tracks_events:
                        writes.event_received((meta.namespace, meta.name), new)
        finally:
            self.version = version
            self._record_received(taken)
        return None

    def _collect(self, lines: Sequence[Line]) -> InitialEventsEnd | None:
        """Stage lines of initial events; `version` stays that of the current content."""
        events: list[ParsedEvent] = []
        taken = 0
        try:
            for line in lines:
                taken += 1
                event = parse_event(line, splice=True)
                if event[0] == "BOOKMARK":
                    if ends_initial_events(line):
                        return InitialEventsEnd(event[1].resource_version, lines[taken:])
                elif event[0] == "ERROR":
                    raise self._error(bytes(event[2]))
                else:
                    events.append(event)
        finally:
            self._staging_store.stage_all(events)
            self._record_received(taken)
        return None

    def _error(self, body: bytes) -> ApiError:
        return error_from_event(body, f"WATCH {self.info.path(self.scope.namespace)}")

    def stage_page(self, page: bytes) -> tuple[str, str]:
        """Stage one page of a list; return its resourceVersion and the continue token of the next page.

        Raises:
            MalformedStreamError: The page is not a list.
        """
        version, token, items = parse_page(page)
        stage = self._staging_store.stage
        prefix = type_prefix(self.info.api_version, self.info.kind)
        for item in items:
            meta, body, guessed = parse_item(bytes(item), prefix)
            stage("ADDED", meta, body, guessed)
        self._record_received(len(items))
        return version, token

    async def commit(self, version: str) -> None:
        """Replace the content with the staged list, then call the handlers; `synced` after the last call (C3)."""
        self._staging = False
        self.metrics.relists.inc()
        before = self.store
        changes = self._staging_store.commit(initial=not self._filled)
        if self._widening:
            assert isinstance(before, MetadataStore)
            self.store, self._widening = self._staging_store, False
            changes = before.replace_with(self.store)
        self._filled = True
        self.version = version
        await self._notify_all(changes)
        if before is not self.store:
            before.clear()  # an entry that a caller keeps must not keep the whole content
        if not self._widening:  # a handler may have widened it again
            self._synced.set()
        self._memory.list_notified(len(self.store))

    async def clear(self) -> None:
        """Empty the store and call the handlers with deletes (W10)."""
        self._staging = False
        await self._notify_all(self.store.clear())

    async def _notify_all(self, changes: Iterator[Change]) -> None:
        self._notifying = True
        try:
            while part := list(islice(changes, CHANGES_PER_SLICE)):
                for change in part:
                    for handler in self._handlers:
                        if self._closed:
                            break
                        try:
                            handler(change)
                        except Exception:  # noqa: BLE001 - a handler must not end the stream (R1)
                            self._handler_failed(change)
                if len(part) == CHANGES_PER_SLICE:
                    await asyncio.sleep(0)
        finally:
            self._notifying = False
        if self.writes.active:
            self.writes.advance(relisted=True)
        if (then := self._after_notification) is not None:
            self._after_notification = None
            then()
        if not self._widening:  # a handler that was added meanwhile waits for whole objects
            self._add_pending_handlers()

    def _add_pending_handlers(self) -> None:
        joining, self._pending_handlers = self._pending_handlers, []
        for handler in joining:
            if self._closed:
                return
            self._send_initial_adds(handler)
            self._handlers = (*self._handlers, handler)

    def _new_store(self) -> Store:
        kept = Store if self.whole else MetadataStore
        return kept(
            self.view,
            transform=self.transform,
            pool=self._pool,
            memory=self._memory,
            on_undecodable=self._undecodable,
            on_index_error=self._index_failed,
        )

    def _send_initial_adds(self, handler: Handler) -> None:
        """Call `handler` with an initial add for each current object."""
        for entry in self.entries():
            change = Change("add", entry.key, None, entry, initial=True)
            try:
                handler(change)
            except Exception:  # noqa: BLE001 - a handler must not end the stream (R1)
                self._handler_failed(change)

    def _record_received(self, events: int) -> None:
        self._last_received = self._now()
        self.metrics.events.value += events
        self._staging_store.train()
        if self.writes.active:
            self.writes.advance()

    # Errors of single objects.

    def _handler_failed(self, change: Change) -> None:
        self.metrics.handler_errors.inc()
        self._log.exception(
            "handler_failed",
            kind=self.kind,
            namespace=change.key.namespace,
            name=change.key.name,
            change=change.type,
        )

    def _index_failed(self, index: str, key: Key, problem: Exception) -> None:
        self.metrics.handler_errors.inc()
        self._log.error(
            "index_function_failed",
            kind=self.kind,
            namespace=key.namespace,
            name=key.name,
            index=index,
            exc_info=problem,
        )

    def _undecodable(self, error: UndecodableError) -> None:
        self.metrics.undecodable.inc()
        self._log.error(
            "object_undecodable",
            kind=self.kind,
            namespace=error.key.namespace,
            name=error.key.name,
            resource_version=error.resource_version,
            path=error.path,
            problem=error.problem,
        )


def _fits(store: Store, view: View[Any]) -> bool:
    """Return whether the store has all that the view needs."""
    return view.form == "metadata" or store.view.form != "metadata"
