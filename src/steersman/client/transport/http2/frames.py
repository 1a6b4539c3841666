"""HTTP/2 frames as bytes (RFC 9113 sections 4 and 6): types, flags, error codes, and functions that build frames."""

from __future__ import annotations

import struct
from typing import Final

DATA, HEADERS, PRIORITY_FRAME, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 7, 8, 11
FRAME_HEAD: Final = struct.Struct(">BHBBI")
"""Upper byte and lower two bytes of the length, type, flags, stream ID."""
FIXED_PAYLOAD_BYTES: Final = {PRIORITY_FRAME: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
"""Payload sizes of the frame types that have a fixed size."""
GOAWAY_MIN_BYTES: Final = 8
CONNECTION_FRAMES: Final = frozenset({SETTINGS, PING, GOAWAY})
"""The frame types that must have stream ID 0."""
STREAM_FRAMES: Final = frozenset({PRIORITY_FRAME, RST_STREAM, PUSH_PROMISE, CONTINUATION})
"""The frame types, beside DATA and HEADERS, that must not have stream ID 0."""
SETTING_RANGES: Final = {0x2: (0, 0), 0x4: (0, 2**31 - 1), 0x5: (2**14, 2**24 - 1), 0x8: (0, 1)}
"""Valid values of ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE (RFC 9113 section 6.5.2) and
ENABLE_CONNECT_PROTOCOL (RFC 8441 section 3) that a server sends."""

_ERRORS: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return the bytes of one frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def number_frame(kind: int, stream: int, value: int) -> bytes:
    """Return a frame with a payload of one 4-byte number: WINDOW_UPDATE or RST_STREAM."""
    return FRAME_HEAD.pack(0, 4, kind, 0, stream) + value.to_bytes(4, "big")


def goaway(code: int) -> bytes:
    """Return a client's GOAWAY frame; the last stream ID is 0, because servers open no streams."""
    return frame(GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big"))


def error_name(code: int) -> str:
    """Return the name of an error code (RFC 9113 section 7)."""
    return _ERRORS[code] if code < len(_ERRORS) else f"error {code}"


def unpadded(data: bytes) -> bytes:
    """Return the payload of a padded frame without its padding (RFC 9113 section 6.1). Raises ValueError."""
    if data[0] >= len(data):
        raise ValueError("the padding is longer than the frame")
    return data[1 : len(data) - data[0]]


def block_of(flags: int, data: bytes) -> bytes:
    """Return the part of a header block in a HEADERS frame, without padding and priority. Raises ValueError."""
    if flags & PADDED:
        data = unpadded(data)
    if not flags & PRIORITY:
        return data
    size = FIXED_PAYLOAD_BYTES[PRIORITY_FRAME]
    if len(data) < size:
        raise ValueError("the priority fields of a HEADERS frame are truncated")
    return data[size:]
