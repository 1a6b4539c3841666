"""Lines of watch streams and pages of lists, taken apart just as far as a cache needs.

Of an event, its type and the few metadata fields that keys and indexes are made of are read; the object itself stays
the bytes it came as, minus managedFields. Nothing here knows any kind's schema, and a value of an unexpected type never
hides the object's name (`lenient_head`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias, cast, overload

import msgspec
from msgspec import UNSET, Raw

from steersman.cache.lines import END, LONG, Line, MalformedStreamError
from steersman.cache.shapes import Bookmark, Event, Head, Item, Meta, Page, RawEvent
from steersman.client.errors import ApiError, error_from_status
from steersman.client.status import Status

__all__ = [
    "Body",
    "Meta",
    "Spliced",
    "Taken",
    "error_of",
    "event_of",
    "head_of",
    "initial_end",
    "item_of",
    "items_of",
    "type_prefix",
]

INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a WatchList's initial events (KEP-3157)."""

_MANAGED: Final = b'"managedFields":'


_decode_event = msgspec.json.Decoder(Event).decode
_decode_raw_event = msgspec.json.Decoder(RawEvent).decode
_decode_head = msgspec.json.Decoder(Head).decode
_decode_item = msgspec.json.Decoder(Item).decode
_decode_page = msgspec.json.Decoder(Page).decode
_decode_bookmark = msgspec.json.Decoder(Bookmark).decode
_decode_status = msgspec.json.Decoder(Status).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_skip = msgspec.json.Decoder(Raw).decode
_decode_plain = msgspec.json.Decoder().decode

_PREFIX: Final = {
    t[:1].encode(): (t, prefix := f'{{"type":"{t}","object":'.encode(), len(prefix))
    for t in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
"""By the first letter of the type, which is the tenth byte of a line: the type, and what the line starts with."""
_UNKNOWN: Final = ("", b"\n", 0)  # which no line starts with
_NOTHING: Final = b'"managedFields":0'
"""What stands for managedFields while the metadata is read."""
_ENDS_METADATA: Final = _NOTHING + b"}}"
"""The same where they are its last member: all that is needed behind the start of an object."""
_TRIES: Final = 16
"""Ends of managedFields, and of metadata, that are tried before a line is read as a whole."""
_FAR: Final = 8 * 1024
"""Bytes of an item behind managedFields from which on looking whose they are is quicker than looking for others."""
_COMMA: Final = ord(",")
_BRACE: Final = ord("}")
_AFTER: Final = (_COMMA, _BRACE)


class Spliced:
    """The bytes of a long object as pieces of its line: who writes them anywhere puts them together there."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: bytes | memoryview) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


Body: TypeAlias = bytes | Spliced
"""The JSON of an object."""
Taken: TypeAlias = tuple[str, Meta, Body, bool]
"""An event, taken apart: see `event_of`."""


@overload
def event_of(line: Line) -> tuple[str, Meta, bytes, bool]: ...


@overload
def event_of(line: Line, splice: bool) -> Taken: ...


def event_of(line: Line, splice: bool = False) -> Taken:
    """Type, metadata, object bytes without managedFields, and whether the metadata had to be guessed at.

    A line as API servers write it is read as far as its metadata: to look at every character of what follows takes
    longer than all the rest that is done with it. Whether that is JSON shows when somebody reads the object (W9);
    where the line ends does not depend on it (W8).

    The line may end with its newline, as it mostly does, or without. With `splice`, what is left of a long object is a
    `Spliced`. Of an object whose JSON has two members `metadata`, which no API server writes, the first may be taken,
    and an array between them may be cut out in place of managedFields that equal it. Raises `MalformedStreamError` for
    what is no watch event at all.
    """
    if not isinstance(line, bytes) or len(line) > LONG:
        return _event_in_pieces(line, splice) or _event_as_a_whole(bytes(line))
    # Slices, as methods of bytes take twice as long to find out what they are asked.
    kind, prefix, begin = _PREFIX.get(line[9:10], _UNKNOWN)
    start = line.find(_MANAGED)
    if start < 0 or line[:begin] != prefix or line[-3:] != END:
        return _event_as_a_whole(line)
    end = line.find(b"}]", start) + 2
    try:
        _skip(line[start + 16 : end])
        if line[end] == _BRACE:  # of built-in kinds they are the last of the metadata
            close = end + 1
            meta = _decode_head(line[begin:start] + _ENDS_METADATA).metadata
        else:
            close = line.find(b"}", end) + 1
            meta = _decode_head(b"%s%s%s}" % (line[begin:start], _NOTHING, line[end:close])).metadata
    except msgspec.DecodeError:  # an end that is another's, or in a string
        return _event_in_pieces(line, False) or _event_as_a_whole(line)
    if meta.managed_fields is UNSET or line[close] not in _AFTER:
        return _event_as_a_whole(line)
    if line[end] == _COMMA:
        end += 1
    elif line[start - 1] == _COMMA:
        start -= 1
    return kind, meta, line[begin:start] + line[end:-2], False


def _event_in_pieces(line: Line, splice: bool) -> Taken | None:
    """`event_of` for a line that is long, or harder to read; `None` where it is not as API servers write it."""
    text, at, rest = (line, 0, ()) if isinstance(line, bytes) else line.started()
    start = text.find(_MANAGED, at)
    kind, prefix, begin = _PREFIX.get(text[at + 9 : at + 10], _UNKNOWN)
    if start < 0 or not text.startswith(prefix, at) or not line.endswith(END):
        return None
    end = _end_of_array(text, start + len(_MANAGED))
    if not end:
        return None
    begin += at
    before, close = text[begin:start], end
    for _ in range(_TRIES):
        close = text.find(b"}", close) + 1
        if not close:
            return None
        try:
            meta = _decode_head(b"%s%s%s}" % (before, _NOTHING, text[end:close])).metadata
        except msgspec.ValidationError:
            return None
        except msgspec.DecodeError:  # one of an owner's, or in a string
            continue
        if meta.managed_fields is UNSET or text[close : close + 1] not in (b",", b"}"):
            return None
        start, end = _with_comma(text, start, end)
        view = memoryview(text)
        after = (view[end:], *rest[:-1], rest[-1][:-2]) if rest else (view[end:-2],)
        spliced = Spliced(view[begin:start], *after)
        return kind, meta, spliced if splice else bytes(spliced), False
    return None


def _end_of_array(text: bytes, begin: int) -> int:
    """Where an array of objects ends that begins at `begin`; 0 for what is none, or has too many look-alikes."""
    end = begin
    for _ in range(_TRIES):
        end = text.find(b"}]", end) + 2
        if end < begin:
            return 0
        try:
            _skip(text[begin:end])
        except msgspec.DecodeError:  # no beginning of an array is one, so that the first that is one is the whole
            continue
        return end
    return 0


def _event_as_a_whole(line: bytes) -> tuple[str, Meta, bytes, bool]:
    """`event_of` for any line."""
    try:
        event = _decode_event(line)
    except msgspec.DecodeError:
        return _event_the_long_way(line)
    kind, meta = event.type, event.object.metadata
    _, prefix, begin = _PREFIX.get(line[9:10], _UNKNOWN)
    if meta.managed_fields is not UNSET or not line.startswith(prefix) or not line.endswith(END):
        return _event_the_long_way(line)
    return kind, meta, line[begin:-2], False


def _event_the_long_way(line: bytes) -> tuple[str, Meta, bytes, bool]:
    try:
        event = _decode_raw_event(line)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"a line of the watch stream is no event: {problem}") from None
    meta, body, guessed = head_of(bytes(event.object))
    return event.type, meta, body, guessed


def head_of(body: bytes) -> tuple[Meta, bytes, bool]:
    """Metadata, bytes without managedFields, and whether the metadata was guessed; raises `MalformedStreamError`."""
    return item_of(body, b"")


def item_of(body: bytes, named: bytes) -> tuple[Meta, bytes, bool]:
    """As `head_of`, for an item of a list; where it lacks its kind it gets `named`, the start of an object."""
    try:
        head = _decode_item(body)
    except msgspec.ValidationError:
        return lenient_head(body), _without_managed_fields(body), True
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"an object is no JSON: {problem}") from None
    if named and not head.kind:
        rest = body[body.index(b"{") + 1 :]
        body = b"%s%s%s" % (named, b"" if rest.lstrip().startswith(b"}") else b",", rest)
    meta = head.metadata
    managed = meta.managed_fields
    if managed is UNSET:
        return meta, body, False
    return meta, _cut(body, bytes(managed)), False


def _cut(body: bytes, value: bytes) -> bytes:
    """An object without its managedFields, which are `value`."""
    start = body.find(_MANAGED)
    end = start + 16 + len(value)
    if start < 0 or not body.startswith(value, start + 16):
        return _without_managed_fields(body)
    if not _is_metadatas(body[:start]) if len(body) - end > _FAR else body.find(_MANAGED, end) >= 0:
        return _without_managed_fields(body)
    start, end = _with_comma(body, start, end)
    view = memoryview(body)
    return b"".join((view[:start], view[end:]))


def _with_comma(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Where a member from `start` to `end` begins and ends with its comma; `event_of`, the hot path, has it inline."""
    if text[end] == _COMMA:
        return start, end + 1
    return (start - 1 if text[start - 1] == _COMMA else start), end


def _is_metadatas(text: bytes) -> bool:
    """Whether managedFields that follow `text`, the start of an object, are its metadata's."""
    try:
        return _decode_head(text + _ENDS_METADATA).metadata.managed_fields is not UNSET
    except msgspec.DecodeError:
        return False


def _without_managed_fields(body: bytes) -> bytes:
    try:
        members = _decode_members(body)
        metadata = _decode_members(members["metadata"])
    except (msgspec.DecodeError, KeyError):
        return body
    if metadata.pop("managedFields", None) is None:
        return body
    members["metadata"] = Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(members)


def lenient_head(body: bytes) -> Meta:
    """What can be known of an object whose metadata has the wrong types: its key lists and deletes all the same (W9).

    Raises `MalformedStreamError` when there is no name to be had.
    """
    try:
        plain: Any = _decode_plain(body)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"an object is no JSON: {problem}") from None
    metadata: Any = cast("dict[str, Any]", plain).get("metadata") if isinstance(plain, dict) else None
    if not isinstance(metadata, dict):
        raise MalformedStreamError("an object has no metadata")
    fields = cast("dict[str, Any]", metadata)

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else "" if value is None else str(value)

    return Meta(
        name=text("name"),
        namespace=text("namespace"),
        uid=text("uid"),
        resource_version=text("resourceVersion"),
        deletion_timestamp=text("deletionTimestamp") or None,
    )


def initial_end(line: Line) -> bool:
    """Whether a BOOKMARK line is the one that ends the initial events."""
    try:
        annotations = _decode_bookmark(bytes(line)).object.metadata.annotations
    except msgspec.DecodeError:
        return False
    return annotations is not None and annotations.get(INITIAL_END) == "true"


def error_of(body: bytes, request: str) -> ApiError:
    """The error that an ERROR event carries; its object is a Status."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = Status(code=500, reason="InternalError", message=body[:200].decode("utf-8", "replace"))
    return error_from_status(status, request)


def items_of(page: bytes) -> tuple[str, str, list[Raw]]:
    """resourceVersion, continue token (`""` on the last page) and items of a list's page.

    Raises `MalformedStreamError`.
    """
    try:
        decoded = _decode_page(page)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"the answer is no list: {problem}") from None
    return decoded.metadata.resource_version, decoded.metadata.continue_ or "", decoded.items or []


@cache
def type_prefix(api_version: str, kind: str) -> bytes:
    """The start of an object with its kind and apiVersion, which the items of built-in kinds' lists lack."""
    return b'{"kind":"%s","apiVersion":"%s"' % (kind.encode(), api_version.encode())
