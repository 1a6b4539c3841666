"""Watches: events are recorded synchronously and sent in chunks of all pending events.

A watch never waits inside a write, and a watcher that reads too slowly is let go rather than kept in memory. Frames
of plain JSON are made once for each version of an object and shared by all watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.api.requests.messages import encode
from steersman_cluster.api.requests.negotiation import PROTOBUF, Form
from steersman_cluster.api.requests.options import ListOptions
from steersman_cluster.api.tables import metadata_for, table_of
from steersman_cluster.api.views import body_of, object_of, partial
from steersman_cluster.errors import APIError, expired
from steersman_cluster.objects import Object
from steersman_cluster.storage import UNCACHED, CompactedError, Event, Item

__all__ = ["Watch"]

MAX_PENDING_EVENTS: Final = 10_000
"""Events that may wait for a watcher; one that falls further behind is let go."""
_BOOKMARK_EVERY: Final = 60.0
_BOOKMARK_BEFORE: Final = 2.0
"""Seconds before the end of a watch at which it sends a last bookmark."""
_SHORTEST, _LONGEST = 1800.0, 3600.0


class Watch:
    """One watch: events are recorded synchronously and sent in chunks of all pending events."""

    def __init__(
        self,
        server: Server,
        resource: ResourceType,
        namespace: str,
        options: ListOptions,
        form: Form,
        include: str,
        matches: Callable[[Item], bool] | None,
    ) -> None:
        self._server = server
        self.stored_at = resource.stored_at
        """The collection that is watched."""
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._form = form
        self._include = include or "Metadata"
        self._matches = matches
        self._frames: list[bytes] = []
        self._unconverted: list[Event] = []
        """Events of a kind that a webhook converts, until it has."""
        self._waiter: asyncio.Future[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._ended = False
        self._first_row = True
        self.protobuf = (
            form.media == PROTOBUF and resource.definition is None and form.shape in ("", "PartialObjectMetadata")
        )
        self._plain = form.plain or (form.media == PROTOBUF and not self.protobuf and not form.shape)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks to send."""
        loop = asyncio.get_running_loop()
        server, options = self._server, self._options
        seconds = options.timeout or server.random.uniform(_SHORTEST, _LONGEST)
        end = loop.call_later(seconds, self._end)
        if self._resource.converts:
            await self._prepare_all()
        stop = self._begin()
        if options.bookmarks and not self._ended:
            self._schedule(loop, loop.time(), loop.time() + seconds)
        server.watches.add(self)
        try:
            while True:
                if self._unconverted:
                    await self._convert()
                if self._frames:
                    data = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
                    self._frames.clear()
                    yield data
                elif self._ended:
                    return
                else:
                    self._waiter = loop.create_future()
                    try:
                        await self._waiter
                    finally:
                        self._waiter = None
        finally:
            stop()
            server.watches.discard(self)
            end.cancel()
            if self._later is not None:
                self._later.cancel()

    def end(self) -> None:
        """End the watch after its pending events, because the server stops or the kind changed."""
        self._end()

    def _begin(self) -> Callable[[], None]:
        server, resource, options = self._server, self._resource, self._options
        storage = server.storage
        version = options.version
        if server.registry.find(resource.group, resource.version, resource.plural) is not resource:
            self._ended = True  # its definition changed since the request came
            return lambda: None
        initial = options.initial if options.initial is not None else version in ("", "0")
        if version not in ("", "0") and not initial:
            since = int(version)
            try:
                events = storage.since(self.stored_at, since)
            except CompactedError as problem:
                error = expired(
                    "The resourceVersion for the provided watch is too old."
                    if self.stored_at in UNCACHED
                    else f"too old resource version: {since} ({problem.oldest})"
                )
                self._frames.append(self._frame("ERROR", error.status))
                self._ended = True
                return lambda: None
            for event in events:
                self._receive(event)
        elif initial:
            revision = min(storage.revision if options.as_of is None else options.as_of, storage.revision)
            for item in storage.items_at(self.stored_at, self._namespace, revision):
                if self._matches is None or self._matches(item):
                    self._add("ADDED", item)
            if options.initial and options.bookmarks:
                self._frames.append(self._bookmark({"k8s.io/initial-events-end": "true"}, revision))
            for event in storage.since(self.stored_at, revision) if revision < storage.revision else ():
                self._receive(event)
        return storage.watch(self.stored_at, self._receive)

    async def _prepare_all(self) -> None:
        """Convert all pending objects, and those that arrive meanwhile."""
        storage, revision = self._server.storage, -1
        while revision != storage.revision:
            revision = storage.revision
            await self._server.reads.prepare(self._resource, self._namespace)

    async def _convert(self) -> None:
        """Convert and send the pending events, even if the watch ends meanwhile.

        Until then it stays among the unconverted, which holds bookmarks back.
        """
        count = len(self._unconverted)
        items = [item for event in self._unconverted for item in (event.before, event.item) if item is not None]
        try:
            await self._server.conversions.prepare(self._resource, items)
        except APIError as problem:
            self._unconverted.clear()
            self._frames.append(self._frame("ERROR", problem.status))
            self._ended = True
            return
        ready = self._unconverted[:count]  # none where the watch was let go
        del self._unconverted[:count]
        for event in ready:
            self._deliver(event)

    def _receive(self, event: Event) -> None:
        if self._ended or (self._namespace and event.item.namespace != self._namespace):
            return
        if self._resource.converts:
            self._unconverted.append(event)
        else:
            self._deliver(event)
        if len(self._frames) + len(self._unconverted) > MAX_PENDING_EVENTS:
            self._frames.clear()
            self._unconverted.clear()
            self._ended = True
        self._wake()

    def _deliver(self, event: Event) -> None:
        item, matches = event.item, self._matches
        if matches is None:
            self._add(event.type, item)
            return
        before = event.before is not None and matches(event.before)
        now = event.type != "DELETED" and matches(item)
        if now:
            self._add("MODIFIED" if before else "ADDED", item)
        elif before and event.type == "DELETED":
            self._add("DELETED", item)
        elif before and event.before is not None:
            obj = event.before.object()
            obj["metadata"]["resourceVersion"] = str(item.revision)
            left = Item(item.namespace, item.name, item.revision, encode(obj))
            self._add("DELETED", left)

    def _add(self, type: str, item: Item) -> None:
        resource = self._resource
        if not self._plain:
            self._frames.append(self._frame(type, object_of(resource, item), item))
            return
        known = item.derived
        if known is None:
            known = item.derived = {}
        frame = known.get((resource, type))
        if frame is None:
            frame = b'{"type":"%s","object":%s}\n' % (type.encode(), body_of(resource, item))
            known[resource, type] = frame
        self._frames.append(frame)

    def _frame(self, type: str, obj: Object, item: Item | None = None) -> bytes:
        if item is not None and self._form.shape:
            obj = self._shaped(obj)
        if self.protobuf:
            from steersman_cluster.protobuf import frame

            return frame(type, obj)
        return encode({"type": type, "object": obj}) + b"\n"

    def _shaped(self, obj: Object) -> Object:
        if self._form.shape != "Table":
            return partial(obj)
        columns, self._first_row = self._first_row, False
        return table_of(self._resource, [obj], metadata_for(obj), self._server.now(), self._include, columns=columns)

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int | None = None) -> bytes:
        resource = self._resource
        metadata: Object = {"resourceVersion": str(self._server.storage.revision if revision is None else revision)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return self._frame("BOOKMARK", self._shaped(obj) if self._form.shape else obj)

    def _schedule(self, loop: asyncio.AbstractEventLoop, now: float, end: float) -> None:
        """Arm the timer of the next bookmark after `now`: once a minute, and once shortly before the watch's end."""
        last = end - _BOOKMARK_BEFORE
        at = last if now < last < now + _BOOKMARK_EVERY else now + _BOOKMARK_EVERY
        self._later = loop.call_at(at, self._rearm_bookmark, loop, at, end)

    def _rearm_bookmark(self, loop: asyncio.AbstractEventLoop, at: float, end: float) -> None:
        if not self._unconverted and not self._ended:  # otherwise there are unsent events up to that revision
            self._frames.append(self._bookmark())
            self._wake()
        # A loop may fire a timer shortly before its time; the next one comes after `at`.
        self._schedule(loop, max(at, loop.time()), end)

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
