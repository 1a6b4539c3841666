"""The store: collections of items, one revision, a history of the latest events, and their listeners.

The store is synchronous and belongs to one thread: a read and a write without an await between them are one atomic
change. The history is limited in events, bytes and age (`history`); older events are compacted.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from steersman_cluster.objects import Object
from steersman_cluster.storage.database import Database
from steersman_cluster.storage.history import MAX_WATCH_EVENTS, MIN_WATCH_EVENTS, Compaction, WatchHistory
from steersman_cluster.storage.items import Event, GroupResource, Item, encode

__all__ = ["UNCACHED", "CompactedError", "Storage"]

WINDOW: Final = 10_000
"""Events that are remembered, of all collections together."""
WINDOW_BYTES: Final = 64 * 1024 * 1024
"""The greatest size of the events' objects in bytes."""

UNCACHED: Final[frozenset[GroupResource]] = frozenset({("", "events")})
"""Collections without a watch cache in kube-apiserver: etcd serves their watches, until the compaction."""

Listener = Callable[[Event], None]


class CompactedError(Exception):
    """The requested revision is compacted; `oldest` is the first available one."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is compacted; the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class _Collection:
    """The objects of one group and resource, and their listeners."""

    __slots__ = ("history", "items", "keys", "listeners", "touched")

    def __init__(self, touched: int, limit: int) -> None:
        self.items: dict[tuple[str, str], Item] = {}
        self.keys: list[tuple[str, str]] = []
        self.listeners: dict[Listener, None] = {}
        self.touched = touched
        """The revision of the last write here, or where remembering began."""
        self.history = WatchHistory(touched, limit)


class Storage:
    """All objects of a cluster."""

    def __init__(
        self,
        database: Database | None = None,
        *,
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        first: int = 1,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.revision = first
        """The revision of the last write."""
        self.database = database
        self._collections: dict[GroupResource, _Collection] = {}
        self._log: deque[Event] = deque()
        self._window = window
        self._window_bytes = window_bytes
        self._logged_bytes = 0
        self._listeners: list[Listener] = []
        self._untold: deque[tuple[_Collection, Event]] = deque()
        self._telling = False
        self._origin = first
        if database is not None:
            self._load(database)
        self._origin = self._forgotten = self.revision
        self._now = now
        self._compaction = Compaction(self.revision, now())

    @property
    def compacted(self) -> int:
        """The oldest revision that lists of the past and watches without a cache can still have."""
        self._compaction.update(self.revision, self._now())
        return max(self._compaction.revision, self._forgotten)

    def _load(self, database: Database) -> None:
        for resource, item in database.load():
            collection = self._of(resource)
            collection.items[item.namespace, item.name] = item
            self.revision = max(self.revision, item.revision)
        self.revision = max(self.revision, int(database.fact("revision") or b"0"))
        for collection in self._collections.values():
            collection.keys = sorted(collection.items)
            # Earlier deletions are unknown, so that no earlier revision can be served.
            collection.touched = self.revision

    def _of(self, resource: GroupResource) -> _Collection:
        found = self._collections.get(resource)
        if found is None:
            limit = max(MIN_WATCH_EVENTS, min(self._window, MAX_WATCH_EVENTS))
            found = self._collections[resource] = _Collection(self._origin, limit)
        return found

    # Reading.

    def get(self, resource: GroupResource, namespace: str, name: str) -> Item | None:
        """The object of a name, or `None`."""
        return self._of(resource).items.get((namespace, name))

    def items(self, resource: GroupResource, namespace: str = "") -> list[Item]:
        """All objects of a collection, or those of a namespace, in the order of their keys."""
        collection = self._of(resource)
        found, keys = collection.items, collection.keys
        if namespace:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (f"{namespace}\0", ""))]
        return [found[key] for key in keys]

    def resources(self) -> list[GroupResource]:
        """Return the collections that have objects, in the order of their names."""
        return sorted(resource for resource, collection in self._collections.items() if collection.items)

    def count(self, resource: GroupResource) -> int:
        """Return the number of objects of a collection."""
        return len(self._of(resource).items)

    def items_at(self, resource: GroupResource, namespace: str, revision: int) -> list[Item]:
        """As `items`, as they were at a revision. Raises `CompactedError`."""
        if revision >= self.revision:
            return self.items(resource, namespace)
        compacted = self.compacted
        if revision < self._compaction.revision:
            raise CompactedError(revision, compacted)
        if self._of(resource).touched <= revision:
            return self.items(resource, namespace)
        if revision < self._forgotten:
            raise CompactedError(revision, compacted)
        items = {(i.namespace, i.name): i for i in self.items(resource, namespace)}
        for event in reversed(self._log):
            if event.item.revision <= revision:
                break
            if event.resource == resource and namespace in ("", event.item.namespace):
                key = (event.item.namespace, event.item.name)
                if event.before is None:
                    items.pop(key, None)
                else:
                    items[key] = event.before
        return [items[key] for key in sorted(items)]

    # Writing.

    def put(self, resource: GroupResource, namespace: str, name: str, obj: Object) -> Item:
        """Store an object and set its resourceVersion.

        The write is durable and delivered to the listeners when this returns. Writes of a listener are delivered after
        the event that caused them.
        """
        self._compaction.update(self.revision, self._now())
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        item = Item(namespace, name, revision, encode(obj))
        if self.database is not None:
            self.database.put(resource, item)
        collection, key = self._of(resource), (namespace, name)
        before = collection.items.get(key)
        collection.items[key] = item
        if before is None:
            if not collection.keys or collection.keys[-1] < key:
                collection.keys.append(key)
            else:
                insort(collection.keys, key)
        self.revision = revision
        item.written = obj
        try:
            self._happened(collection, Event("ADDED" if before is None else "MODIFIED", resource, item, before))
        finally:
            item.written = None
        return item

    def delete(self, resource: GroupResource, namespace: str, name: str) -> Item | None:
        """Remove an object; its last state with the revision of the removal, or `None` where there is none."""
        collection, key = self._of(resource), (namespace, name)
        before = collection.items.get(key)
        if before is None:
            return None
        self._compaction.update(self.revision, self._now())
        revision = self.revision + 1
        obj = before.object()
        obj["metadata"]["resourceVersion"] = str(revision)
        if self.database is not None:
            self.database.delete(resource, namespace, name, revision)
        del collection.items[key]
        del collection.keys[bisect_left(collection.keys, key)]
        self.revision = revision
        last = Item(namespace, name, revision, encode(obj))
        self._happened(collection, Event("DELETED", resource, last, before))
        return last

    def _happened(self, collection: _Collection, event: Event) -> None:
        collection.touched = event.item.revision
        collection.history.add(event.item.revision, self._now())
        log = self._log
        log.append(event)
        self._logged_bytes += len(event.item.value)
        while len(log) > self._window or self._logged_bytes > self._window_bytes:
            oldest = log.popleft().item
            self._logged_bytes -= len(oldest.value)
            self._forgotten = oldest.revision
        self._untold.append((collection, event))
        if not self._telling:
            self._deliver_events()

    def _deliver_events(self) -> None:
        """Deliver the pending events in order.

        Writes of a listener are delivered after the event that caused them. A listener that fails does not prevent
        delivery to the others; the first error is raised at the end.
        """
        problem: Exception | None = None
        self._telling = True
        try:
            while self._untold:
                collection, event = self._untold.popleft()
                for listener in (*self._listeners, *collection.listeners):
                    try:
                        listener(event)
                    except Exception as error:  # noqa: BLE001 - raised below
                        problem = problem or error
        finally:
            self._telling = False
        if problem is not None:
            raise problem

    def compact(self) -> None:
        """Compact up to the present revision, as a request to etcd does. The watch caches keep their events."""
        self._compaction.compact(self.revision)

    # Watching.

    def on_change(self, listener: Listener) -> None:
        """Tell `listener` of every event of every collection, first of all and in order."""
        self._listeners.append(listener)

    def watch(self, resource: GroupResource, listener: Listener) -> Callable[[], None]:
        """Call `listener` synchronously for each new event of a collection; returns the function that stops this."""
        listeners = self._of(resource).listeners
        listeners[listener] = None
        return lambda: listeners.pop(listener, None) and None

    def since(self, resource: GroupResource, revision: int) -> Iterable[Event]:
        """The events of a collection after a revision, oldest first. Raises `CompactedError`."""
        oldest = self.compacted
        if resource not in UNCACHED:
            oldest = max(self._of(resource).history.forgotten, self._forgotten)
        if revision < oldest:
            raise CompactedError(revision, oldest)
        # A deque is slow in its middle; most requests are for events near its end.
        wanted: list[Event] = []
        for event in reversed(self._log):
            if event.item.revision <= revision:
                break
            if event.resource == resource:
                wanted.append(event)
        return reversed(wanted)
