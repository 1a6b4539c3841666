"""Gets, lists and watches."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from steersman.devcluster.api.messages import Response
from steersman.devcluster.api.negotiate import PROTOBUF, YAML, Form
from steersman.devcluster.api.options import ListOptions
from steersman.devcluster.api.resources import ResourceType
from steersman.devcluster.api.tables import metadata_for, table_of
from steersman.devcluster.api.views import body_of, fields_of, item_of_list, object_of, partial
from steersman.devcluster.errors import APIError, bad_request, expired, not_found
from steersman.devcluster.objects import Object
from steersman.devcluster.storage import Compacted, Event, Item, Storage

if TYPE_CHECKING:
    from steersman.devcluster.api.server import APIServer

__all__ = ["Reads", "StorageReader", "present"]

_encode: Final = msgspec.json.Encoder().encode
_SLOW: Final = 10_000
"""Events that may wait for a watcher; one that falls further behind is let go."""
_BOOKMARK_EVERY: Final = 60.0
_SHORTEST, _LONGEST = 1800.0, 3600.0
_NS_SEP: Final = "\0"

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def present(obj: Object, form: Form, status: int = 200) -> Response:
    """An object or list in the media type that was asked for."""
    if form.media == PROTOBUF:
        from steersman.devcluster.protobuf import encode, supports

        if supports(str(obj.get("apiVersion")), str(obj.get("kind"))):
            return Response(status, encode(obj), PROTOBUF)
    if form.media == YAML:
        import yaml

        return Response(status, yaml.safe_dump(obj, sort_keys=True).encode(), YAML)
    return Response(status, _encode(obj) + b"\n")


class Reads:
    """Reads for one API server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._storage = server.storage

    # One object.

    def get(self, resource: ResourceType, namespace: str, name: str, form: Form, include: str) -> Response:
        """One object. Raises 404."""
        item = self._storage.get(resource.stored_at, namespace, name)
        if item is None:
            raise not_found(resource.group, resource.plural, name)
        if form.plain:
            return Response(200, body_of(resource, item) + b"\n")
        return self.shaped(resource, object_of(resource, item), form, include)

    def shaped(self, resource: ResourceType, obj: Object, form: Form, include: str = "", status: int = 200) -> Response:
        """An object in the form that was asked for."""
        if form.shape == "Table":
            obj = table_of(resource, [obj], metadata_for(obj), self._server.now(), include or "Metadata")
        elif form.shape == "PartialObjectMetadata":
            obj = partial(obj)
        return present(obj, form, status)

    # Lists.

    def list(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """A list, or a page of one. Raises `APIError`."""
        items, metadata = self._page(resource, namespace, options)
        if form.plain:
            parts = b",".join([item_of_list(resource, item) for item in items])
            head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
                resource.list_kind.encode(),
                resource.api_version.encode(),
                _encode(metadata),
            )
            return Response(200, b"%s%s]}\n" % (head, parts))
        objects = [object_of(resource, item) for item in items]
        if form.shape == "Table":
            return present(table_of(resource, objects, metadata, self._server.now(), include or "Metadata"), form)
        if form.shape:
            kind = "PartialObjectMetadataList"
            shown = [partial(obj) for obj in objects]
            return present({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": shown}, form)
        if resource.definition is None:
            for obj in objects:
                del obj["kind"], obj["apiVersion"]
        body = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": objects,
        }
        return present(body, form)

    def items(self, resource: ResourceType, namespace: str, options: ListOptions) -> list[Item]:
        """All items that are selected now."""
        return list(self._select(resource, self._storage.items(resource.stored_at, namespace), options))

    def _page(self, resource: ResourceType, namespace: str, options: ListOptions) -> tuple[list[Item], Object]:
        self.check_fields(resource, options)
        storage = self._storage
        revision, start = storage.revision, ""
        if options.continue_:
            revision, start = _read_token(options.continue_)
            if revision < 0:
                revision = storage.revision
        elif options.version and options.version != "0":
            asked = int(options.version)
            if asked > storage.revision:
                raise _too_large(asked, storage.revision)
            if options.match == "Exact" or (options.limit and not options.match and asked):
                revision = asked
        try:
            items = storage.items_at(resource.stored_at, namespace, revision)
        except Compacted:
            if not options.continue_:
                raise expired("The resourceVersion for the provided list is too old.") from None
            error = expired(_TOO_OLD)
            error.continue_ = _token(-1, start)  # type: ignore[attr-defined]
            raise error from None
        if start:
            items = [item for item in items if _key(item) >= start]
        selected = list(self._select(resource, items, options))
        metadata: Object = {"resourceVersion": str(revision)}
        if options.limit and len(selected) > options.limit:
            rest = selected[options.limit :]
            metadata["continue"] = _token(revision, _key(rest[0]))
            if options.labels is None and options.fields is None:
                metadata["remainingItemCount"] = len(rest)
            selected = selected[: options.limit]
        return selected, metadata

    def _select(self, resource: ResourceType, items: Iterable[Item], options: ListOptions) -> Iterable[Item]:
        matches = self._matcher(resource, options)
        return items if matches is None else [item for item in items if matches(item)]

    def _matcher(self, resource: ResourceType, options: ListOptions) -> Callable[[Item], bool] | None:
        labels, fields = options.labels, options.fields
        if labels is None and fields is None:
            return None

        def matches(item: Item) -> bool:
            if labels is not None and not labels.matches(item.labels):
                return False
            return fields is None or fields.matches(fields_of(resource, item))

        return matches

    def check_fields(self, resource: ResourceType, options: ListOptions) -> None:
        """Refuse field selectors on fields that the kind does not offer."""
        if options.fields is None:
            return
        known = {"metadata.name", "metadata.namespace", *resource.strategy.selectable}
        for name in options.fields.names:
            if name not in known:
                raise bad_request(f"field label not supported: {name}")

    # Watches.

    def watch(self, resource: ResourceType, namespace: str, options: ListOptions, form: Form, include: str) -> Response:
        """A stream of events. Raises `APIError` only for what the request itself says."""
        self.check_fields(resource, options)
        stream = _Watch(self._server, resource, namespace, options, form, include, self._matcher(resource, options))
        media = f"{PROTOBUF};stream=watch" if stream.protobuf else "application/json"
        return Response(200, content_type=media, stream=stream.chunks())


class _Watch:
    """One watch: told of events synchronously, read in chunks of all that has come meanwhile."""

    def __init__(
        self,
        server: APIServer,
        resource: ResourceType,
        namespace: str,
        options: ListOptions,
        form: Form,
        include: str,
        matches: Callable[[Item], bool] | None,
    ) -> None:
        self._server = server
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._form = form
        self._include = include or "Metadata"
        self._matches = matches
        self._frames: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._ended = False
        self._first_row = True
        self._revision = 0
        self.protobuf = (
            form.media == PROTOBUF and resource.definition is None and form.shape in ("", "PartialObjectMetadata")
        )
        self._plain = form.plain or (form.media == PROTOBUF and not self.protobuf and not form.shape)

    async def chunks(self) -> AsyncIterator[bytes]:
        """What to send, as it comes."""
        loop = asyncio.get_running_loop()
        server, options = self._server, self._options
        seconds = options.timeout if options.timeout else server.random.uniform(_SHORTEST, _LONGEST)
        end = loop.call_later(seconds, self._end)
        stop = self._begin()
        if options.bookmarks and not self._ended:
            self._later = loop.call_later(_BOOKMARK_EVERY, self._bookmark_again, loop)
        server.watches.add(self)
        try:
            while True:
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
        """The server stops."""
        self._end()

    def _begin(self) -> Callable[[], None]:
        server, resource, options = self._server, self._resource, self._options
        storage = server.storage
        version = options.version
        self._revision = storage.revision
        initial = options.initial if options.initial is not None else version in ("", "0")
        if version not in ("", "0") and not initial:
            since = int(version)
            try:
                events = storage.since(resource.stored_at, since)
            except Compacted as problem:
                error = expired(f"too old resource version: {since} ({problem.oldest})")
                self._frames.append(self._frame("ERROR", error.status))
                self._ended = True
                return lambda: None
            for event in events:
                self._take(event)
        elif initial:
            for item in storage.items(resource.stored_at, self._namespace):
                if self._matches is None or self._matches(item):
                    self._add("ADDED", item)
            if options.initial:
                self._frames.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        stops = [storage.watch(resource.stored_at, self._take)]
        return lambda: [stop() for stop in stops] and None

    def _take(self, event: Event) -> None:
        item = event.item
        self._revision = item.revision
        if self._ended or (self._namespace and item.namespace != self._namespace):
            return
        matches = self._matches
        if matches is None:
            self._add(event.type, item)
        else:
            before = event.before is not None and matches(event.before)
            now = event.type != "DELETED" and matches(item)
            if now:
                self._add("MODIFIED" if before else "ADDED", item)
            elif before and event.type == "DELETED":
                self._add("DELETED", item)
            elif before and event.before is not None:
                obj = event.before.object()
                obj["metadata"]["resourceVersion"] = str(item.revision)
                left = Item(item.namespace, item.name, item.revision, _encode(obj))
                self._add("DELETED", left)
        if len(self._frames) > _SLOW:
            self._frames.clear()
            self._end()
        self._wake()

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
        if item is not None and self._form.shape == "Table":
            table = table_of(
                self._resource, [obj], metadata_for(obj), self._server.now(), self._include, columns=self._first_row
            )
            self._first_row = False
            obj = table
        elif item is not None and self._form.shape:
            obj = partial(obj)
        if self.protobuf:
            from steersman.devcluster.protobuf import frame

            return frame(type, obj)
        return _encode({"type": type, "object": obj}) + b"\n"

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        resource = self._resource
        metadata: Object = {"resourceVersion": str(self._revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj: Any = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._form.shape == "Table":
            obj = {
                **table_of(resource, [], {"resourceVersion": str(self._revision)}, 0, "None", columns=self._first_row)
            }
            obj["rows"] = [{"cells": [], "object": partial({"metadata": metadata})}]
            obj["columnDefinitions"] = None
        elif self._form.shape:
            obj = partial(obj)
        return self._frame("BOOKMARK", obj)

    def _bookmark_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._revision = self._server.storage.revision
        self._frames.append(self._bookmark())
        self._wake()
        self._later = loop.call_later(_BOOKMARK_EVERY, self._bookmark_again, loop)

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _key(item: Item) -> str:
    return f"{item.namespace}{_NS_SEP}{item.name}"


def _token(revision: int, start: str) -> str:
    body = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        body = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = body["rv"], body["start"]
        if not isinstance(revision, int) or not isinstance(start, str):
            raise TypeError("not a token")
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: illegal base64 data or JSON") from None
    return revision, start


def _too_large(asked: int, current: int) -> APIError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return APIError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1}, (("Retry-After", "1"),))


class StorageReader:
    """Reads for the server's own rooms: current objects, as they are stored."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        item = self._storage.get((group, resource), namespace, name)
        return None if item is None else item.object()

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return [item.object() for item in self._storage.items((group, resource), namespace)]
