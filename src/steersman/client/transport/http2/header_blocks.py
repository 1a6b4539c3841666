"""HTTP/2 header blocks (RFC 7541): encoding of requests, and decoding of responses when a header is read.

The client announces a dynamic table of size zero, so each header block can be decoded alone. The status is its first
byte; the rest is decoded only on demand. Requests use no dynamic table either. The functions have no I/O and no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steersman.client.errors import TransportError
from steersman.client.transport.base import RequestHeaders
from steersman.client.transport.http1 import checked_headers
from steersman.models.memo import Memo

__all__ = [
    "ENCODED_NAMES",
    "INDEXED_STATUSES",
    "Http2Encoder",
    "decode_fields",
    "length_matches",
    "status_of",
    "values_of",
]

_MAX_HEADER_LIST_BYTES: Final = 1 << 20
INDEXED_STATUSES: Final = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
"""The statuses that have an index in HPACK's static table (RFC 7541, appendix A)."""
_METHOD_FIELDS: Final = {
    "GET": b"\x82\x04",
    "POST": b"\x83\x04",
    **{verb: b"\x02" + bytes((len(verb),)) + verb.encode() + b"\x04" for verb in ("DELETE", "PATCH", "PUT")},
}
"""The encoded method, and the first byte of the path's field."""
_FORBIDDEN: Final = frozenset({"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
"""Connection-specific headers, which HTTP/2 forbids (RFC 9113 section 8.2.2)."""
_BYTES: Final = [bytes((value,)) for value in range(256)]
_NAMES: Final = (  # noqa: SIM905 - as a list, it is sixty lines
    ":authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status "
    "accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow "
    "authorization cache-control content-disposition content-encoding content-language content-length "
    "content-location content-range content-type cookie date etag expect expires from host if-match if-modified-since "
    "if-none-match if-range if-unmodified-since last-modified link location max-forwards proxy-authenticate "
    "proxy-authorization range referer refresh retry-after server set-cookie strict-transport-security "
    "transfer-encoding user-agent vary via www-authenticate"
).split()
"""The names of HPACK's static table; the first one has index 1 (RFC 7541, appendix A)."""
_HUFFMAN_CODES: Final = {
    letter: f"{first + n:0{bits}b}"
    for bits, first, letters in (
        (5, 0x00, "012aceiost"),
        (6, 0x14, " %-./3456789=A_bdfghlmnpru"),
        (7, 0x5C, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    )
    for n, letter in enumerate(letters)
}
"""The shorter Huffman codes as bits (RFC 7541, appendix B). Codes of one length are consecutive."""
_HUFFMAN_LETTERS: Final = {code: letter for letter, code in _HUFFMAN_CODES.items()}
_STATUS_NAMED: Final = frozenset(first | index for first in (0x00, 0x10, 0x40) for index in range(8, 15))
"""The first bytes of a field whose name is the index of `:status`: without, never and with indexing."""
_CREDENTIAL_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


class Http2Encoder:
    """Encodes requests as header blocks and caches encoded headers. Credentials are marked as never indexed."""

    def __init__(self, scheme: str, authority: str) -> None:
        self._scheme_and_authority = (b"\x87" if scheme == "https" else b"\x86") + b"\x01" + _string(authority)
        self._blocks: dict[object, bytes] = {}

    def encode(self, method: str, where: str, headers: RequestHeaders, body: bytes | None) -> bytes:
        """Return the header block of a request with this body. Raises TransportError for an invalid header."""
        start = _METHOD_FIELDS.get(method) or b"\x02" + _string(method) + b"\x04"
        path = where.encode("latin-1")
        size = len(path)
        encoded_length = _BYTES[size] if size < 127 else _integer(size, 7)
        block = self._blocks.get(headers) if headers.__class__ is tuple else None
        if block is None:
            block = self._encoded(headers)
        if body is None:
            return b"".join((start, encoded_length, path, self._scheme_and_authority, block))
        return b"".join((start, encoded_length, path, self._scheme_and_authority, block, _lengths[len(body)]))

    def _encoded(self, headers: RequestHeaders) -> bytes:
        pairs = tuple(checked_headers(headers))
        block = b"".join([_literal(name.lower(), value) for name, value in pairs])
        if len(self._blocks) > 64:  # tokens rotate
            self._blocks.clear()
        self._blocks[pairs] = block
        return block


def _literal(name: str, value: str) -> bytes:
    if name in _FORBIDDEN:
        raise TransportError(f"the header {name!r} belongs to a connection: HTTP/2 requests must not have it")
    return (b"\x10" if name in _CREDENTIAL_HEADERS else b"\x00") + _string(name) + _string(value.strip(" \t"))


def _length(size: int) -> bytes:
    return b"\x0f\x0d" + _string(str(size))  # content-length has index 28 = 15 + 13


_lengths: Final = Memo(_length, 1024)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    return _integer(len(data), 7) + data


def _integer(value: int, bits: int) -> bytes:
    """Encode an integer (RFC 7541 section 5.1) whose prefix bits are zero."""
    prefix_max = (1 << bits) - 1
    if value < prefix_max:
        return bytes((value,))
    out = bytearray((prefix_max,))
    value -= prefix_max
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def status_of(block: bytes) -> int:
    """Return the status at the start of a response's header block. Raises ValueError if there is none."""
    at = 1 if block[:1] == b"\x20" else 0  # a dynamic table size update to 0
    try:
        if (status := INDEXED_STATUSES.get(block[at])) is not None:
            return status
        if not block[at] & 0x0F:  # a literal name, which is allowed but rare
            return _status(block)
        return _statuses[block[at : at + 2 + (block[at + 1] & 0x7F)]]
    except IndexError:
        raise ValueError("the response does not begin with a status") from None


def _status(field: bytes) -> int:
    if field[0] in _STATUS_NAMED and len(field) == 2 + (field[1] & 0x7F):
        digits = _huffman_decode(field[2:]) if field[1] & 0x80 else field[2:].decode("latin-1")
        if digits is not None and len(digits) == 3 and digits.isdecimal():
            return int(digits)
    name, status = _decoded(field)[0]
    if name != ":status" or len(status) != 3 or not status.isdecimal():
        raise ValueError("the response does not begin with a status")
    return int(status)


_statuses: Final = Memo(_status, 256)


_MAX_PART_BYTES: Final = 512
"""Number of bytes before a content-length up to which the parts of a block are looked up in a cache."""


def length_matches(block: bytes, size: int) -> bool:
    """Return whether a body of `size` bytes agrees with the block's content-length; True if there is none.

    kube-apiserver sends the audit ID first, which differs in each response. The fields between the audit ID and the
    content-length, and those after it, stay the same for a second, so the results for these parts are cached.
    """
    forms = _forms[size]
    form = forms[0]
    at = block.find(form)
    if 3 < at < _MAX_PART_BYTES and len(block) < 2 * _MAX_PART_BYTES and block[0] in INDEXED_STATUSES:
        start = 1
        if not block[1] and (skipped := _SKIPPED[block[2]]) < at:  # skip a field with a literal name
            encoded_length = block[skipped] & 0x7F
            if encoded_length < 127:
                start = skipped + 1 + encoded_length
        if start <= at and _has_no_length[block[start:at]] and _has_no_length[block[at + len(form) :]]:
            return True
    if all(value in forms for value in values_of(block, *ENCODED_NAMES["content-length"])):
        return True
    said = [value for name, value in decode_fields(block) if name == "content-length"]
    return all(value.isdecimal() and int(value) == size for value in said)


def _length_forms(size: int) -> tuple[bytes, bytes, bytes]:
    """Return a content-length field as Go's servers encode it, and the encoded value without and with Huffman code."""
    text = str(size)
    code = _huffman_encode(text)
    plain, coded = _string(text), bytes((0x80 | len(code),)) + code
    return b"\x0f\x0d" + (coded if len(coded) < len(plain) else plain), plain, coded


_forms: Final = Memo(_length_forms, 4096)


def values_of(block: bytes, index: int, names: tuple[bytes, bytes]) -> Sequence[bytes]:
    """Return the encoded values of a name with a static index; other fields are skipped.

    `b""` means that only the decoded block can tell the value, or whether the field exists.
    """
    found: list[bytes] = []
    at, end, last = 0, len(block), len(_NAMES)
    try:
        while at < end:
            first = block[at]
            if first & 0x80:  # an indexed field
                known, at = _number(block, at, 0x7F)
                if known == index or known > last:
                    found.append(b"")
            elif first & 0xE0 == 0x20:  # a dynamic table size update
                _, at = _number(block, at, 0x1F)
            else:
                known, at = _number(block, at, 0x3F if first & 0x40 else 0x0F)
                named = known == index
                if not known:
                    size, start = _number(block, at, 0x7F)
                    named = block[start : start + size] in names
                    at = start + size
                elif known > last:
                    found.append(b"")
                size, start = _number(block, at, 0x7F)
                if named:
                    found.append(block[at : start + size])
                at = start + size
    except IndexError:  # the block is truncated
        return (b"",)
    return found if at == end else (b"",)


def _number(block: bytes, at: int, prefix_max: int) -> tuple[int, int]:
    """Decode an integer (RFC 7541 section 5.1) with the prefix bits of `prefix_max`; return it and its end."""
    value = block[at] & prefix_max
    at += 1
    if value == prefix_max:
        shift = 0
        more = 0x80
        while more & 0x80:
            if shift > 28:
                raise IndexError("the integer is too large for a header block")
            more = block[at]
            at += 1
            value += (more & 0x7F) << shift
            shift += 7
    return value, at


def _huffman_encode(text: str) -> bytes:
    """Encode with Huffman codes, padded with ones (RFC 7541 section 5.2). Raises KeyError for other characters."""
    bits = "".join([_HUFFMAN_CODES[letter] for letter in text])
    bits += "1" * (-len(bits) % 8)
    return int("0" + bits, 2).to_bytes(len(bits) // 8, "big")


def _huffman_decode(code: bytes) -> str | None:
    """Decode Huffman codes; None if the code is invalid or has other characters."""
    text = bits = ""
    for bit in f"{int.from_bytes(code, 'big'):0{8 * len(code)}b}":
        bits += bit
        if (letter := _HUFFMAN_LETTERS.get(bits)) is not None:
            text += letter
            bits = ""
    return text if len(bits) < 8 and "0" not in bits else None


def decode_fields(block: bytes) -> list[tuple[str, str]]:
    """Return the lower-case names and the values of a block's headers; empty if the block is invalid. Never raises."""
    try:
        return [pair for pair in _decoded(block) if not pair[0].startswith(":")]
    except ValueError:
        return []


def _decoded(block: bytes) -> Sequence[tuple[str, str]]:
    import hpack  # its tables take a megabyte: loaded only when a whole block is decoded

    try:
        pairs = hpack.Decoder(max_header_list_size=_MAX_HEADER_LIST_BYTES).decode(block, raw=True)
    except (hpack.HPACKError, IndexError) as problem:
        raise ValueError(f"the headers cannot be decoded: {problem or type(problem).__name__}") from None
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


def _encoded_name(name: str) -> tuple[int, tuple[bytes, bytes]]:
    """Return the static index of a name (0 if it has none) and its two encodings: literal and Huffman."""
    name = name.lower()
    try:
        code = _huffman_encode(name)
    except KeyError:
        code = b""  # found in all blocks
    return _NAMES.index(name) + 1 if name in _NAMES else 0, (name.encode("latin-1"), code)


ENCODED_NAMES: Final = Memo(_encoded_name, 64)
"""The arguments of `values_of` for a name."""


def _is_without_length(part: bytes) -> bool:
    """Return whether a part of a block consists of whole fields, none of which is a content-length."""
    return not values_of(part, *ENCODED_NAMES["content-length"])


_SKIPPED: Final = [
    _MAX_PART_BYTES if size == 127 or size in {len(name) for name in ENCODED_NAMES["content-length"][1]} else 3 + size
    for size in (*range(128), *range(128))
]
"""By the first byte of a literal name's length: the offset of the field's value. A large offset stands for names that
may be content-length and for lengths of several bytes."""
_has_no_length: Final = Memo(_is_without_length, 256)
