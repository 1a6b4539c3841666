"""Types that look different in JSON than on the wire: times, quantities, int-or-string, raw JSON, field sets."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from steersman_cluster.objects import from_json
from steersman_cluster.protobuf.wire import TruncatedMessageError, delimited, fields_in, signed, tag, varint

__all__ = ["DECODE", "ENCODE", "UNION"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = re.compile(r"^(.*?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")


def _members(data: bytes) -> dict[int, Any]:
    return {number: value for number, _, value in fields_in(data)}


def _text(value: Any) -> str:
    try:
        return bytes(value).decode()
    except (UnicodeDecodeError, TypeError) as problem:
        raise TruncatedMessageError("a string is no UTF-8") from problem


def _encode_time(value: Any) -> bytes:
    found = _TIME.match(str(value))
    if found is None:
        return b""
    whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    seconds = (whole - _EPOCH) // timedelta(seconds=1)
    nanos = int((found[2] or "0").ljust(9, "0"))
    return b"".join((tag(1, 0), varint(seconds), tag(2, 0), varint(nanos)))


def _decode_time(data: bytes, *, micro: bool = False) -> str | None:
    members = _members(data)
    if not members:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=signed(members.get(1, 0)))
    except OverflowError as problem:
        raise TruncatedMessageError("a time is not between the years 1 and 9999") from problem
    # `strftime` does not pad years to four digits.
    text = moment.replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{text}.{members.get(2, 0) // 1000:06d}Z" if micro else f"{text}Z"


def _encode_quantity(value: Any) -> bytes:
    return delimited(1, str(value).encode())


def _decode_quantity(data: bytes) -> str:
    return _text(_members(data).get(1, b"0"))


def _encode_intstr(value: Any) -> bytes:
    if isinstance(value, str):
        return b"".join((tag(1, 0), varint(1), tag(2, 0), varint(0), delimited(3, value.encode())))
    return b"".join((tag(1, 0), varint(0), tag(2, 0), varint(int(value)), delimited(3, b"")))


def _decode_intstr(data: bytes) -> int | str:
    members = _members(data)
    return _text(members.get(3, b"")) if members.get(1, 0) else signed(members.get(2, 0))


def _encode_json(value: Any) -> bytes:
    return delimited(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _decode_json(data: bytes) -> Any:
    raw = _members(data).get(1, b"")
    if not raw:
        return None
    try:
        return from_json(raw)
    except ValueError as problem:
        raise TruncatedMessageError("raw bytes are no JSON") from problem


def _encode_duration(value: Any) -> bytes:
    from steersman_cluster.protobuf.duration import nanoseconds

    return tag(1, 0) + varint(nanoseconds(str(value)))


def _decode_duration(data: bytes) -> str:
    from steersman_cluster.protobuf.duration import text

    return text(signed(_members(data).get(1, 0)))


ENCODE: Final[dict[str, Callable[[Any], bytes]]] = {
    "time": _encode_time,
    "microtime": _encode_time,
    "quantity": _encode_quantity,
    "intstr": _encode_intstr,
    "raw": _encode_json,
    "fields": _encode_json,
    "duration": _encode_duration,
    "s": lambda value: str(value).encode("utf-8", "surrogatepass"),
    "y": lambda value: base64.b64decode(str(value)),
    "i": lambda value: varint(int(value)),
    "b": lambda value: varint(1 if value else 0),
    "d": lambda value: struct.pack("<d", float(value)),
}
"""The bytes of a value, by kind."""


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise TruncatedMessageError("a number was expected")
    return signed(value)


def _double(value: Any) -> float | int:
    if not isinstance(value, bytes) or len(value) != 8:
        raise TruncatedMessageError("a double was expected")
    found: float = struct.unpack("<d", value)[0]
    return int(found) if found.is_integer() else found


DECODE: Final[dict[str, Callable[[Any], Any]]] = {
    "time": _decode_time,
    "microtime": lambda data: _decode_time(data, micro=True),
    "quantity": _decode_quantity,
    "intstr": _decode_intstr,
    "raw": _decode_json,
    "fields": _decode_json,
    "duration": _decode_duration,
    "s": _text,
    "y": lambda value: base64.b64encode(bytes(value)).decode(),
    "i": _number,
    "b": lambda value: _number(value) != 0,
    "d": _double,
}
"""The value of bytes (or of a varint), by kind."""

UNION: Final = {
    "apiextensions/v1.JSONSchemaPropsOrBool": bool,
    "apiextensions/v1.JSONSchemaPropsOrArray": list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": list,
}
"""Messages that in JSON are either a schema (field `schema`) or a plain value (the other field)."""
