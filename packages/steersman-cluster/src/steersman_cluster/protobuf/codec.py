"""Objects to protobuf and back, by the table of fields.

What a Go client would leave out is left out: plain fields that are zero and marked omitempty. Bytes that are no
message of the kind raise `NotProtobufError`, never anything else.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steersman_cluster.objects import Object
from steersman_cluster.protobuf.special import DECODE, ENCODE, UNION
from steersman_cluster.protobuf.table import Field, Message, message, message_of
from steersman_cluster.protobuf.wire import BYTES, DOUBLE, VARINT, TruncatedMessageError, delimited, fields_in, tag

__all__ = ["MEDIA_TYPE", "NotProtobufError", "decode", "encode", "frame", "supports"]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_WIRE: Final = {"i": VARINT, "b": VARINT, "d": DOUBLE}
_MAX_DEPTH: Final = 200


class NotProtobufError(ValueError):
    """The bytes are no object in Kubernetes' protobuf encoding, or of a kind that has none."""


def supports(api_version: str, kind: str) -> bool:
    """Return whether a kind has a protobuf form: built-in kinds and the types of meta/v1 have."""
    return message_of(api_version, kind) is not None


def encode(obj: Object) -> bytes:
    """An object, list, Status or the like as `runtime.Unknown` with its magic number; raises `NotProtobufError`."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    found = message_of(api_version, kind)
    if found is None:
        raise NotProtobufError(f"{kind} in {api_version} has no protobuf form")
    type_meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    unknown = (delimited(1, type_meta), delimited(2, _encode(found, obj)), delimited(3, b""), delimited(4, b""))
    return MAGIC + b"".join(unknown)


def decode(data: bytes) -> Object:
    """The object in `data`, with apiVersion and kind; raises `NotProtobufError`."""
    if not data.startswith(MAGIC):
        raise NotProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        unknown = {number: value for number, _, value in fields_in(data[len(MAGIC) :])}
        type_meta = {number: value for number, _, value in fields_in(_bytes(unknown.get(1, b"")))}
        api_version, kind = (_bytes(type_meta.get(n, b"")).decode() for n in (1, 2))
        found = message_of(api_version, kind)
        if found is None:
            raise NotProtobufError(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
        return {"kind": kind, "apiVersion": api_version, **_decode(found, _bytes(unknown.get(2, b"")), 0)}
    except (TruncatedMessageError, UnicodeDecodeError, OverflowError) as problem:
        raise NotProtobufError(f"the body is no protobuf message: {problem}") from None


def frame(event: str, obj: Object) -> bytes:
    """One watch event as it stands in a stream: four bytes of length, then a `WatchEvent`."""
    body = delimited(1, event.encode()) + delimited(2, delimited(1, encode(obj)))
    return len(body).to_bytes(4, "big") + body


# Writing.


def _encode(shape: Message, obj: Object) -> bytes:
    out: list[bytes] = []
    for field in shape.fields:
        if not field.name:
            inner = message(field.kind)
            if field.pointer and not any(f.name in obj for f in inner.fields):
                continue
            out.append(delimited(field.number, _encode(inner, obj)))
            continue
        value = obj.get(field.name)
        if value is None:
            continue
        if field.map:
            out.extend(_entry(field, key, item) for key, item in cast(Object, value).items())
        elif field.wrapped:
            out.append(delimited(field.number, _items(field, value)))
        elif field.repeated:
            out.extend(_one(field, field.number, item) for item in cast("list[Any]", value))
        else:
            out.append(_one(field, field.number, value))
    return b"".join(out)


def _one(field: Field, number: int, value: Any) -> bytes:
    kind = field.kind
    encoder = ENCODE.get(kind)
    if encoder is None:
        return delimited(number, _part(kind, value))
    wire = _WIRE.get(kind)
    return delimited(number, encoder(value)) if wire is None else tag(number, wire) + encoder(value)


def _part(kind: str, value: Any) -> bytes:
    shape = message(kind)
    if kind not in UNION:
        return _encode(shape, value or {})
    own = next(f for f in shape.fields if f.kind == "apiextensions/v1.JSONSchemaProps" and not f.repeated)
    plain = next(f for f in shape.fields if f is not own)
    if isinstance(value, dict):
        allows = _one(plain, plain.number, value=True) if UNION[kind] is bool else b""
        return allows + delimited(own.number, _encode(message(own.kind), cast(Object, value)))
    if UNION[kind] is bool:
        return _one(plain, plain.number, value)
    return b"".join(_one(plain, plain.number, item) for item in value)


def _entry(field: Field, key: str, value: Any) -> bytes:
    item = delimited(2, _items(field, value)) if field.wrapped else _one(field, 2, value)
    return delimited(field.number, delimited(1, key.encode()) + item)


def _items(field: Field, values: Any) -> bytes:
    return b"".join(_one(field, 1, item) for item in cast("list[Any]", values or []))


# Reading.


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TruncatedMessageError("bytes were expected")
    return value


def _decode(shape: Message, data: bytes, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise TruncatedMessageError("the message is nested too deeply")
    obj: Object = {}
    for number, wire, value in fields_in(data):
        field = shape.by_number.get(number)
        if field is None:
            continue
        if not field.name:
            obj.update(_decode(message(field.kind), _bytes(value), depth + 1))
        elif field.map:
            key, item = _read_entry(field, _bytes(value), depth)
            obj.setdefault(field.name, {})[key] = item
        elif field.wrapped:
            obj[field.name] = _read_items(field, _bytes(value), depth)
        elif field.repeated:
            obj.setdefault(field.name, []).extend(_read_repeated(field, wire, value, depth))
        else:
            found = _read_one(field, value, depth)
            if found is not None and not (field.omit and not field.pointer and found in ("", 0, False)):
                obj[field.name] = found
    return obj


def _read_one(field: Field, value: Any, depth: int) -> Any:
    decoder = DECODE.get(field.kind)
    if decoder is not None:
        return decoder(value)
    shape = message(field.kind)
    if field.kind not in UNION:
        return _decode(shape, _bytes(value), depth + 1)
    return _decode_union(shape, _bytes(value), depth + 1)


def _decode_union(shape: Message, data: bytes, depth: int) -> Any:
    plain: Any = False if UNION[shape.name] is bool else []
    for number, _, value in fields_in(data):
        field = shape.by_number.get(number)
        if field is None:
            continue
        if field.kind == "apiextensions/v1.JSONSchemaProps" and not field.repeated:
            return _decode(message(field.kind), _bytes(value), depth)
        found = _read_one(field, value, depth)
        if isinstance(plain, list):
            cast("list[Any]", plain).append(found)
        else:
            plain = found
    return cast(Any, plain)


def _read_repeated(field: Field, wire: int, value: Any, depth: int) -> list[Any]:
    if field.kind in ("i", "b") and wire == BYTES:  # packed
        return [DECODE[field.kind](number) for number in _packed(_bytes(value))]
    return [_read_one(field, value, depth)]


def _packed(data: bytes) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    return numbers


def _read_entry(field: Field, data: bytes, depth: int) -> tuple[str, Any]:
    members = {number: value for number, _, value in fields_in(data)}
    key = _bytes(members.get(1, b"")).decode()
    if field.wrapped:
        return key, _read_items(field, _bytes(members.get(2, b"")), depth)
    empty: Any = 0 if field.kind in ("i", "b") else b""
    return key, _read_one(field, members.get(2, empty), depth)


def _read_items(field: Field, data: bytes, depth: int) -> list[Any]:
    return [_read_one(field, value, depth) for number, _, value in fields_in(data) if number == 1]
