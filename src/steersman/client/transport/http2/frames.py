"""HTTP/2's frames as bytes (RFC 9113 §4, §6): their numbers and names, and how to make one. No I/O, no state."""

from __future__ import annotations

import struct
from typing import Final

DATA, HEADERS, PRIORITY_FRAME, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 7, 8, 11
FRAME_HEAD: Final = struct.Struct(">BHBBI")
"""The length's upper byte and its lower two, type, flags, stream."""
SIZES: Final = {PRIORITY_FRAME: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
"""The frames that have one size only."""
GOAWAY_MIN_BYTES: Final = 8
OF_CONNECTION: Final = frozenset({SETTINGS, PING, GOAWAY})
"""The frames that have no stream."""
OF_STREAM: Final = frozenset({PRIORITY_FRAME, RST_STREAM, PUSH_PROMISE, CONTINUATION})
"""The frames that must have a stream, beyond DATA and HEADERS."""
SETTING_RANGES: Final = {0x2: (0, 0), 0x4: (0, 2**31 - 1), 0x5: (2**14, 2**24 - 1), 0x8: (0, 1)}
"""What servers may say of ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE (RFC 9113 §6.5.2) and
ENABLE_CONNECT_PROTOCOL (RFC 8441 §3)."""

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
    """One frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def number_frame(kind: int, stream: int, value: int) -> bytes:
    """One of the frames that hold a number of four bytes: WINDOW_UPDATE, RST_STREAM."""
    return FRAME_HEAD.pack(0, 4, kind, 0, stream) + value.to_bytes(4, "big")


def goaway(code: int) -> bytes:
    """A GOAWAY of a client, which has begun with no stream of the server's."""
    return frame(GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big"))


def error_name(code: int) -> str:
    """An error code's name (RFC 9113 §7)."""
    return _ERRORS[code] if code < len(_ERRORS) else f"error {code}"


def unpadded(data: bytes) -> bytes:
    """What a padded frame holds (RFC 9113 §6.1). Raises ValueError where it is all padding and more."""
    if data[0] >= len(data):
        raise ValueError("more padding than frame")
    return data[1 : len(data) - data[0]]


def block_of(flags: int, data: bytes) -> bytes:
    """The part of a header block in a HEADERS frame, without padding and priority. Raises ValueError."""
    if flags & PADDED:
        data = unpadded(data)
    if not flags & PRIORITY:
        return data
    size = SIZES[PRIORITY_FRAME]
    if len(data) < size:
        raise ValueError("half a priority")
    return data[size:]
