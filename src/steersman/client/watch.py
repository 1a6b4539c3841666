"""Watch events from a stream of bytes, each decoded when somebody looks.

This is one watch, from one resourceVersion until it ends: an iterator without memory. What survives drops, relists
and fail-overs is the reflector in `steersman.cache`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from steersman.client.errors import ConnectionLost, ResponseError, error_from_status
from steersman.client.frames import Lines
from steersman.client.lists import decode_item, name_of
from steersman.client.status import Status
from steersman.client.transport import StreamResponse
from steersman.models import DecodeError, Key, View, decode

__all__ = ["EventType", "WatchEvent", "read_event", "watch_events"]

T = TypeVar("T")

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class WatchEvent(Generic[T]):
    """What happened to which object. `key` and `resource_version` are always there; `object` is decoded when read.

    A BOOKMARK has no key and no object: it only moves `resource_version` on, and `initial_events_end` marks the one
    that ends the initial events of a watch that asked for them.
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
        """The object. Raises `DecodeError` when it does not fit its type, `ValueError` for a bookmark."""
        if self._object is None:
            if self.type == "BOOKMARK":
                raise ValueError("a BOOKMARK has no object: look at resource_version")
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
_NOBODY = Key("", "")


def read_event(view: View[T], line: bytes, request: str) -> WatchEvent[T]:
    """One line of a watch. Raises the `ApiError` that an ERROR event carries, `ResponseError` for what is no event."""
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
                key=_NOBODY,
                uid="",
                resource_version=mark.resource_version,
                initial_events_end=ends,
            )
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ResponseError(f"{request}: a line is no watch event: {problem}") from None
    if event.type == "ERROR":
        raise _error(raw, request)
    if event.type not in _TYPES:
        raise ResponseError(f"{request}: a watch event of the unknown type {event.type[:40]!r}")
    name = name_of(raw)
    return WatchEvent(
        cast(EventType, event.type),
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
        return ResponseError(f"{request}: an ERROR event without a Status: {problem}")


async def watch_events(view: View[T], response: StreamResponse, request: str) -> AsyncGenerator[WatchEvent[T], None]:
    """The events of an open watch, until the server ends it. Raises `ConnectionLost` when it ends inside an event."""
    lines = Lines()
    async for chunk in response.chunks:
        for line in lines.feed(chunk):
            yield read_event(view, line, request)
    if lines.rest().strip():
        raise ConnectionLost(f"{request}: the watch ended inside an event")
