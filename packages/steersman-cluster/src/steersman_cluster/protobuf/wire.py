"""The wire format: varints, tags and length-delimited fields (protobuf's encoding specification)."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["BYTES", "DOUBLE", "VARINT", "TruncatedMessageError", "delimited", "fields_in", "signed", "tag", "varint"]

VARINT, DOUBLE, BYTES = 0, 1, 2
_FIXED32 = 5
_MAX_VARINT_BYTES = 10


class TruncatedMessageError(ValueError):
    """The bytes are no protobuf message."""


def varint(value: int) -> bytes:
    """An integer as varint; negative ones as 64-bit two's complement."""
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """The key that precedes a field."""
    return varint(number << 3 | wire)


def delimited(number: int, body: bytes) -> bytes:
    """A length-delimited field: a string, bytes or a message."""
    return tag(number, BYTES) + varint(len(body)) + body


def signed(value: int) -> int:
    """A decoded varint as the signed 64-bit integer that it means."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for step in range(_MAX_VARINT_BYTES):
        if at + step >= len(data):
            raise TruncatedMessageError("the message ends in the middle of a number")
        byte = data[at + step]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + step + 1
        shift += 7
    raise TruncatedMessageError("a number is longer than ten bytes")


def fields_in(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field of a message, in order; raises `TruncatedMessageError`."""
    at, end = 0, len(data)
    while at < end:
        key, at = _read(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _read(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = _read(data, at)
        elif wire == DOUBLE:
            size = 8
        elif wire == _FIXED32:
            size = 4
        else:
            raise TruncatedMessageError(f"wire type {wire} is not known")
        if at + size > end:
            raise TruncatedMessageError("the message ends in the middle of a field")
        yield number, wire, data[at : at + size]
        at += size
