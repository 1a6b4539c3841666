"""Parses lines of watch streams and pages of lists, as far as a cache needs.

The type of an event and the metadata fields for keys and indexes are decoded; the object stays in its original bytes
without managedFields. The parsers know no schema. A metadata value of an unexpected type does not hide the object's
name (`guess_metadata`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias, cast, overload

import msgspec
from msgspec import UNSET, Raw

from steersman.cache.lines import LONG_LINE_BYTES, OBJECT_LINE_END, Line, MalformedStreamError
from steersman.cache.wire_types import Bookmark, Event, Head, Item, Meta, Page, RawEvent
from steersman.client.errors import ApiError, error_from_status
from steersman.client.status import Status

__all__ = [
    "Body",
    "Meta",
    "ParsedEvent",
    "Spliced",
    "ends_initial_events",
    "error_from_event",
    "parse_event",
    "parse_item",
    "parse_object",
    "parse_page",
    "type_prefix",
]

INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a WatchList's initial events (KEP-3157)."""

_MANAGED_FIELDS: Final = b'"managedFields":'


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
"""By the first letter of the type, the tenth byte of a line: the type, the start of the line, and its length."""
_UNKNOWN: Final = ("", b"\n", 0)  # no line starts with this
_PLACEHOLDER: Final = b'"managedFields":0'
"""Replaces managedFields while the metadata is decoded."""
_PLACEHOLDER_END: Final = _PLACEHOLDER + b"}}"
"""The same where managedFields are the last member, with the end of the metadata and of the object."""
_MAX_ATTEMPTS: Final = 16
"""Candidates for the end of managedFields, and of the metadata, before a line is decoded as a whole."""
_LONG_TAIL_BYTES: Final = 8 * 1024
"""Bytes after managedFields above which decoding the bytes before them is faster than a search for others."""
_COMMA: Final = ord(",")
_BRACE: Final = ord("}")
_AFTER: Final = (_COMMA, _BRACE)


class Spliced:
    """The bytes of a long object in pieces, which the consumer joins with one copy."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: bytes | memoryview) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


Body: TypeAlias = bytes | Spliced
"""The JSON of an object."""
ParsedEvent: TypeAlias = tuple[str, Meta, Body, bool]
"""Type, metadata, object, and whether the metadata was guessed; see `parse_event`."""


@overload
def parse_event(line: Line) -> tuple[str, Meta, bytes, bool]: ...


@overload
def parse_event(line: Line, *, splice: bool) -> ParsedEvent: ...


def parse_event(line: Line, *, splice: bool = False) -> ParsedEvent:
    """Parse a line into type, metadata, object bytes without managedFields, and whether the metadata was guessed.

    A line in the form of the API server is decoded up to the end of its metadata, because decoding the rest takes
    longer than all other processing. Invalid JSON after that shows when the object is read (W9); the end of the line
    does not depend on it (W8).

    The newline at the end of the line is optional. With `splice`, a long object without its managedFields is returned
    as a `Spliced`. No API server writes an object with two members `metadata`; of such an object the first one may be
    used, and an array between the two which equals the managedFields may be removed instead of them. Raises
    `MalformedStreamError` if the line is not a watch event.
    """
    if not isinstance(line, bytes) or len(line) > LONG_LINE_BYTES:
        return _parse_event_in_pieces(line, splice=splice) or _parse_whole_event(bytes(line))
    # Slices, because a method call of bytes takes twice as long.
    kind, prefix, begin = _PREFIX.get(line[9:10], _UNKNOWN)
    start = line.find(_MANAGED_FIELDS)
    if start < 0 or line[:begin] != prefix or line[-3:] != OBJECT_LINE_END:
        return _parse_whole_event(line)
    end = line.find(b"}]", start) + 2
    try:
        _skip(line[start + 16 : end])
        if line[end] == _BRACE:  # in built-in kinds they are the last member of the metadata
            close = end + 1
            meta = _decode_head(line[begin:start] + _PLACEHOLDER_END).metadata
        else:
            close = line.find(b"}", end) + 1
            meta = _decode_head(b"%s%s%s}" % (line[begin:start], _PLACEHOLDER, line[end:close])).metadata
    except msgspec.DecodeError:  # not the end of managedFields, or within a string
        return _parse_event_in_pieces(line, splice=False) or _parse_whole_event(line)
    if meta.managed_fields is UNSET or line[close] not in _AFTER:
        return _parse_whole_event(line)
    if line[end] == _COMMA:
        end += 1
    elif line[start - 1] == _COMMA:
        start -= 1
    return kind, meta, line[begin:start] + line[end:-2], False


def _parse_event_in_pieces(line: Line, *, splice: bool) -> ParsedEvent | None:
    """Parse a long line, or one that the fast path cannot; `None` if it is not in the form of the API server."""
    text, at, rest = (line, 0, ()) if isinstance(line, bytes) else line.started()
    start = text.find(_MANAGED_FIELDS, at)
    kind, prefix, begin = _PREFIX.get(text[at + 9 : at + 10], _UNKNOWN)
    if start < 0 or not text.startswith(prefix, at) or not line.endswith(OBJECT_LINE_END):
        return None
    end = _end_of_array(text, start + len(_MANAGED_FIELDS))
    if not end:
        return None
    begin += at
    before, close = text[begin:start], end
    for _ in range(_MAX_ATTEMPTS):
        close = text.find(b"}", close) + 1
        if not close:
            return None
        try:
            meta = _decode_head(b"%s%s%s}" % (before, _PLACEHOLDER, text[end:close])).metadata
        except msgspec.ValidationError:
            return None
        except msgspec.DecodeError:  # the end of an owner reference, or within a string
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
    """Return the end of an array of objects that starts at `begin`; 0 if none is found."""
    end = begin
    for _ in range(_MAX_ATTEMPTS):
        end = text.find(b"}]", end) + 2
        if end < begin:
            return 0
        try:
            _skip(text[begin:end])
        except msgspec.DecodeError:  # no proper prefix of an array is valid JSON
            continue
        return end
    return 0


def _parse_whole_event(line: bytes) -> tuple[str, Meta, bytes, bool]:
    """Parse any line by decoding all of it."""
    try:
        event = _decode_event(line)
    except msgspec.DecodeError:
        return _parse_event_generic(line)
    kind, meta = event.type, event.object.metadata
    _, prefix, begin = _PREFIX.get(line[9:10], _UNKNOWN)
    if meta.managed_fields is not UNSET or not line.startswith(prefix) or not line.endswith(OBJECT_LINE_END):
        return _parse_event_generic(line)
    return kind, meta, line[begin:-2], False


def _parse_event_generic(line: bytes) -> tuple[str, Meta, bytes, bool]:
    try:
        event = _decode_raw_event(line)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"a line of the watch stream is not an event: {problem}") from None
    meta, body, guessed = parse_object(bytes(event.object))
    return event.type, meta, body, guessed


def parse_object(body: bytes) -> tuple[Meta, bytes, bool]:
    """Return metadata, bytes without managedFields, and whether the metadata was guessed.

    Raises:
        MalformedStreamError: The bytes are not a JSON object with metadata.
    """
    return parse_item(body, b"")


def parse_item(body: bytes, named: bytes) -> tuple[Meta, bytes, bool]:
    """Parse an item of a list as `parse_object` does; an item without a kind gets `named`, the start of an object."""
    try:
        head = _decode_item(body)
    except msgspec.ValidationError:
        return guess_metadata(body), _without_managed_fields(body), True
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"an object is not JSON: {problem}") from None
    if named and not head.kind:
        rest = body[body.index(b"{") + 1 :]
        body = b"%s%s%s" % (named, b"" if rest.lstrip().startswith(b"}") else b",", rest)
    meta = head.metadata
    managed = meta.managed_fields
    if managed is UNSET:
        return meta, body, False
    return meta, _cut(body, bytes(managed)), False


def _cut(body: bytes, value: bytes) -> bytes:
    """Return an object without its managedFields, which are `value`."""
    start = body.find(_MANAGED_FIELDS)
    end = start + 16 + len(value)
    if start < 0 or not body.startswith(value, start + 16):
        return _without_managed_fields(body)
    if not _is_metadatas(body[:start]) if len(body) - end > _LONG_TAIL_BYTES else body.find(_MANAGED_FIELDS, end) >= 0:
        return _without_managed_fields(body)
    start, end = _with_comma(body, start, end)
    view = memoryview(body)
    return b"".join((view[:start], view[end:]))


def _with_comma(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the start and end of a member together with its comma; `parse_event` has the same inline."""
    if text[end] == _COMMA:
        return start, end + 1
    return (start - 1 if text[start - 1] == _COMMA else start), end


def _is_metadatas(text: bytes) -> bool:
    """Return whether managedFields after `text`, the start of an object, belong to its metadata."""
    try:
        return _decode_head(text + _PLACEHOLDER_END).metadata.managed_fields is not UNSET
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


def guess_metadata(body: bytes) -> Meta:
    """Return the metadata of an object whose metadata has wrong types, so that its key is still known (W9).

    Raises:
        MalformedStreamError: The object has no metadata.
    """
    try:
        plain: Any = _decode_plain(body)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"an object is not JSON: {problem}") from None
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


def ends_initial_events(line: Line) -> bool:
    """Return whether a BOOKMARK line ends the initial events."""
    try:
        annotations = _decode_bookmark(bytes(line)).object.metadata.annotations
    except msgspec.DecodeError:
        return False
    return annotations is not None and annotations.get(INITIAL_END) == "true"


def error_from_event(body: bytes, request: str) -> ApiError:
    """Return the error of an ERROR event, whose object is a Status."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = Status(code=500, reason="InternalError", message=body[:200].decode("utf-8", "replace"))
    return error_from_status(status, request)


def parse_page(page: bytes) -> tuple[str, str, list[Raw]]:
    """resourceVersion, continue token (`""` on the last page) and items of a list's page.

    Raises `MalformedStreamError`.
    """
    try:
        decoded = _decode_page(page)
    except msgspec.DecodeError as problem:
        raise MalformedStreamError(f"the response is not a list: {problem}") from None
    return decoded.metadata.resource_version, decoded.metadata.continue_ or "", decoded.items or []


@cache
def type_prefix(api_version: str, kind: str) -> bytes:
    """Return the start of an object with kind and apiVersion, which list items of built-in kinds lack."""
    return b'{"kind":"%s","apiVersion":"%s"' % (kind.encode(), api_version.encode())
