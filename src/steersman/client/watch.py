"""Watch events from a stream of bytes; each object is decoded when it is accessed.

This is one watch, from a resourceVersion until the watch ends, without state. The reflector in `steersman.cache`
handles reconnects, relists and fail-over.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

from steersman.client.errors import ConnectionLostError, ResponseError, error_from_status
from steersman.client.line_splitter import LineSplitter
from steersman.client.lists import decode_item, name_of
from steersman.client.status import Status
from steersman.client.transport import StreamResponse
from steersman.models import DecodeError, Key, View, decode

__all__ = ["EventType", "WatchEvent", "read_event", "watch_events"]

T = TypeVar("T")

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_TYPES: Final[Mapping[str, EventType]] = {name: name for name in get_args(EventType)}


class WatchEvent(Generic[T]):
    """One watch event. `key` and `resource_version` are always set; `object` is decoded when it is accessed.

    A BOOKMARK has no key and no object: it only updates `resource_version`, and `initial_events_end` marks the bookmark
    at the end of the initial events.
    """

    __slots__ = ("_object", "_view", "initial_events_end", "key", "raw", "resource_version", "type", "uid")

    def __init__(
        self,
        type: EventType,
        view: View[T],
        raw: bytes,
        *,
        key: Key,
        uid: str,
        resource_version: str,
        initial_events_end: bool = False,
    ) -> None:
        self.type: EventType = type
        self.raw = raw
        self.key = key
        self.uid = uid
        self.resource_version = resource_version
        self.initial_events_end = initial_events_end
        self._view = view
        self._object: T | None = None

    @property
    def object(self) -> T:
        """The object. Raises `DecodeError` if it does not fit its type, `ValueError` for a bookmark."""
        if self._object is None:
            if self.type == "BOOKMARK":
                raise ValueError("a BOOKMARK has no object: use resource_version")
            self._object = decode_item(self._view, self.raw)
        return self._object

    def __repr__(self) -> str:
        return f"<{self.type} {self._view.info.kind} {self.key} at {self.resource_version}>"


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, frozen=True, gc=False):
    metadata: _BookmarkMeta = _BookmarkMeta()


_event = msgspec.json.Decoder(_Event)
_bookmark = msgspec.json.Decoder(_Bookmark)
_NO_KEY = Key("", "")


def read_event(view: View[T], line: bytes, request: str) -> WatchEvent[T]:
    """Decode one line of a watch. Raises the `ApiError` of an ERROR event, `ResponseError` for an invalid line."""
    try:
        event = _event.decode(line)
        raw = bytes(event.object)
        if event.type == "BOOKMARK":
            mark = _bookmark.decode(raw).metadata
            ends = (mark.annotations or {}).get("k8s.io/initial-events-end") == "true"
            return WatchEvent(
                "BOOKMARK",
                view,
                raw,
                key=_NO_KEY,
                uid="",
                resource_version=mark.resource_version,
                initial_events_end=ends,
            )
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ResponseError(f"{request}: a line is not a valid watch event: {problem}") from None
    if event.type == "ERROR":
        raise _error(raw, request)
    if (kind := _TYPES.get(event.type)) is None:
        raise ResponseError(f"{request}: a watch event has the unknown type {event.type[:40]!r}")
    name = name_of(raw)
    return WatchEvent(
        kind,
        view,
        raw,
        key=Key(name.namespace, name.name),
        uid=name.uid,
        resource_version=name.resource_version,
    )


def _error(raw: bytes, request: str) -> Exception:
    try:
        return error_from_status(decode(Status, raw), request)
    except DecodeError as problem:
        return ResponseError(f"{request}: an ERROR event has no valid Status: {problem}")


async def watch_events(view: View[T], response: StreamResponse, request: str) -> AsyncGenerator[WatchEvent[T], None]:
    """Yield the events of a watch until the server ends it. Raises `ConnectionLostError` if it ends inside an event."""
    lines = LineSplitter()
    async for chunk in response.chunks:
        for line in lines.feed(chunk):
            yield read_event(view, line, request)
    if lines.rest().strip():
        raise ConnectionLostError(f"{request}: the watch ended inside an event")
