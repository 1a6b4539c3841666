"""HTTP/2's frames and header blocks as bytes (RFC 9113, RFC 7541): what is sent, and what came, read late.

The client asks for a compression table of size zero, so that each header block stands by itself: a status is its first
byte, and the rest is only decoded when somebody wants to know. Requests use no table either. No I/O and no state here.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final

import hpack
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable

from steersman.client.errors import TransportError
from steersman.client.transport.base import RequestHeaders
from steersman.client.transport.http1 import checked

__all__ = ["BlockHeaders", "Http2Encoder", "error_name", "frame", "status_of"]

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 0, 1, 7, 8
FRAME_HEAD: Final = struct.Struct(">BHBBI")
"""The length's upper byte and its lower two, type, flags, stream."""

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
_LONGEST_LIST: Final = 1 << 20
_STATUSES: Final = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
"""The statuses that HPACK's static table has an index for (RFC 7541, appendix A)."""
_METHODS: Final = {
    "GET": b"\x82",
    "POST": b"\x83",
    **{verb: b"\x02" + bytes((len(verb),)) + verb.encode() for verb in ("DELETE", "PATCH", "PUT")},
}
_FORBIDDEN: Final = frozenset({"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
"""Headers of one connection, which HTTP/2 does not have (RFC 9113 §8.2.2)."""
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def error_name(code: int) -> str:
    """An error code's name (RFC 9113 §7)."""
    return _ERRORS[code] if code < len(_ERRORS) else f"error {code}"


class Http2Encoder:
    """Makes requests as header blocks; the parts that recur are kept. Credentials are marked as never to be indexed."""

    def __init__(self, scheme: str, authority: str) -> None:
        self._start = (b"\x87" if scheme == "https" else b"\x86") + b"\x01" + _string(authority)
        self._blocks: dict[object, bytes] = {}

    def __call__(
        self, method: str, where: str, headers: RequestHeaders, body: bytes | None
    ) -> tuple[bytes, bytes | None]:
        """The header block and the body. Raises TransportError for a header that cannot be sent."""
        start = _METHODS.get(method) or b"\x02" + _string(method)
        path = where.encode("latin-1")
        size = len(path)
        said = b"\x04" + (bytes((size,)) if size < 127 else _integer(size, 7)) + path
        length = _length(len(body)) if body is not None else b""
        return b"".join((start, said, self._start, self._block(headers), length)), body

    def _block(self, headers: RequestHeaders) -> bytes:
        key = headers if isinstance(headers, tuple) else tuple(checked(headers))
        block = self._blocks.get(key)
        if block is None:
            block = b"".join([_literal(name.lower(), value) for name, value in checked(headers)])
            if len(self._blocks) > 64:  # tokens rotate
                self._blocks.clear()
            self._blocks[key] = block
        return block


def _literal(name: str, value: str) -> bytes:
    if name in _FORBIDDEN:
        raise TransportError(f"the header {name!r} is of a connection, not of a request")
    return (b"\x10" if name in _SECRET else b"\x00") + _string(name) + _string(value.strip(" \t"))


@functools.lru_cache(maxsize=1024)
def _length(size: int) -> bytes:
    return b"\x0f\x0d" + _string(str(size))  # content-length has index 28 = 15 + 13


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    return _integer(len(data), 7) + data


def _integer(value: int, bits: int) -> bytes:
    """RFC 7541 §5.1, the bits before it being zero."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    out = bytearray((most,))
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def status_of(block: bytes) -> int:
    """The status that a response's header block begins with. Raises ValueError where there is none."""
    at = 1 if block[:1] == b"\x20" else 0  # "the table has size 0 from now on"
    try:
        if (status := _STATUSES.get(block[at])) is not None:
            return status
        if not block[at] & 0x0F:  # the name is spelled out, which is allowed and seldom
            return _status(block)
        return _status(block[at : at + 2 + (block[at + 1] & 0x7F)])
    except IndexError:
        raise ValueError("the response does not begin with a status") from None


@functools.lru_cache(maxsize=256)
def _status(field: bytes) -> int:
    name, status = _decoded(field)[0]
    if name != ":status" or len(status) != 3 or not status.isdecimal():
        raise ValueError("the response does not begin with a status")
    return int(status)


def _decoded(block: bytes) -> Sequence[tuple[str, str]]:
    try:
        pairs = hpack.Decoder(max_header_list_size=_LONGEST_LIST).decode(block, raw=True)
    except (hpack.HPACKError, IndexError) as problem:
        raise ValueError(f"the headers cannot be decoded: {problem or type(problem).__name__}") from None
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


@functools.lru_cache(maxsize=64)
def _marks(name: str) -> tuple[bytes, bytes] | None:
    """How a name stands in a block: as it is, or in Huffman's code. None: it may be a mere index."""
    raw = name.lower().encode("latin-1")
    if any(known == raw for known, _ in HeaderTable.STATIC_TABLE):
        return None
    return raw, HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(raw)


class BlockHeaders:
    """The headers of a response, decoded when first asked for. Never raises: what is no header is not there."""

    __slots__ = ("_block", "_known")

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._known: list[tuple[str, str]] | None = None

    def get(self, name: str) -> str | None:
        if self._known is None and (marks := _marks(name)) is not None:
            block = self._block
            if marks[0] not in block and marks[1] not in block:
                return None
        found = self.get_all(name)
        return found[0] if found else None

    def get_all(self, name: str) -> Sequence[str]:
        name = name.lower()
        return [value for known, value in self._pairs() if known == name]

    def _pairs(self) -> list[tuple[str, str]]:
        if self._known is None:
            try:
                self._known = [pair for pair in _decoded(self._block) if not pair[0].startswith(":")]
            except ValueError:
                self._known = []
        return self._known

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self._pairs())}>"
