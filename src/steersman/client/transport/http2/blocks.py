"""HTTP/2's header blocks as bytes (RFC 7541): what requests say, and what answers said, read late.

The client asks for a compression table of size zero, so that each header block stands by itself: a status is its first
byte, and the rest is only decoded when somebody wants to know. Requests use no table either. No I/O and no state here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steersman.client.errors import TransportError
from steersman.client.transport.base import RequestHeaders
from steersman.client.transport.http1 import checked
from steersman.models.memo import Memo

__all__ = ["MARKS", "STATUSES", "Http2Encoder", "agrees", "fields_of", "status_of", "values_of"]

_LONGEST_LIST: Final = 1 << 20
STATUSES: Final = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
"""The statuses that HPACK's static table has an index for (RFC 7541, appendix A)."""
_STARTS: Final = {
    "GET": b"\x82\x04",
    "POST": b"\x83\x04",
    **{verb: b"\x02" + bytes((len(verb),)) + verb.encode() + b"\x04" for verb in ("DELETE", "PATCH", "PUT")},
}
"""The method, and that the path follows."""
_FORBIDDEN: Final = frozenset({"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
"""Headers of one connection, which HTTP/2 does not have (RFC 9113 §8.2.2)."""
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
"""Those of HPACK's static table, of which the first has index 1 (RFC 7541, appendix A)."""
_CODES: Final = {
    letter: f"{first + n:0{bits}b}"
    for bits, first, letters in (
        (5, 0x00, "012aceiost"),
        (6, 0x14, " %-./3456789=A_bdfghlmnpru"),
        (7, 0x5C, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    )
    for n, letter in enumerate(letters)
}
"""The shorter ones of Huffman's codes, in bits (RFC 7541, appendix B): those of one length are consecutive."""
_LETTERS: Final = {code: letter for letter, code in _CODES.items()}
_STATUS_NAMED: Final = frozenset(first | index for first in (0x00, 0x10, 0x40) for index in range(8, 15))
"""How a field begins whose name is `:status` by an index: not indexed itself, never to be, and to be."""
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


class Http2Encoder:
    """Makes requests as header blocks; the parts that recur are kept. Credentials are marked as never to be indexed."""

    def __init__(self, scheme: str, authority: str) -> None:
        self._said = (b"\x87" if scheme == "https" else b"\x86") + b"\x01" + _string(authority)
        self._blocks: dict[object, bytes] = {}

    def encode(self, method: str, where: str, headers: RequestHeaders, body: bytes | None) -> bytes:
        """The header block of a request with this body. Raises TransportError for a header that cannot be sent."""
        start = _STARTS.get(method) or b"\x02" + _string(method) + b"\x04"
        path = where.encode("latin-1")
        size = len(path)
        size_said = _BYTES[size] if size < 127 else _integer(size, 7)
        block = self._blocks.get(headers) if headers.__class__ is tuple else None
        if block is None:
            block = self._encoded(headers)
        if body is None:
            return b"".join((start, size_said, path, self._said, block))
        return b"".join((start, size_said, path, self._said, block, _lengths[len(body)]))

    def _encoded(self, headers: RequestHeaders) -> bytes:
        pairs = tuple(checked(headers))
        block = b"".join([_literal(name.lower(), value) for name, value in pairs])
        if len(self._blocks) > 64:  # tokens rotate
            self._blocks.clear()
        self._blocks[pairs] = block
        return block


def _literal(name: str, value: str) -> bytes:
    if name in _FORBIDDEN:
        raise TransportError(f"the header {name!r} is of a connection, not of a request")
    return (b"\x10" if name in _SECRET else b"\x00") + _string(name) + _string(value.strip(" \t"))


def _length(size: int) -> bytes:
    return b"\x0f\x0d" + _string(str(size))  # content-length has index 28 = 15 + 13


_lengths: Final = Memo(_length, 1024)


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
        if (status := STATUSES.get(block[at])) is not None:
            return status
        if not block[at] & 0x0F:  # the name is spelled out, which is allowed and seldom
            return _status(block)
        return _statuses[block[at : at + 2 + (block[at + 1] & 0x7F)]]
    except IndexError:
        raise ValueError("the response does not begin with a status") from None


def _status(field: bytes) -> int:
    if field[0] in _STATUS_NAMED and len(field) == 2 + (field[1] & 0x7F):
        digits = _uncoded(field[2:]) if field[1] & 0x80 else field[2:].decode("latin-1")
        if digits is not None and len(digits) == 3 and digits.isdecimal():
            return int(digits)
    name, status = _decoded(field)[0]
    if name != ":status" or len(status) != 3 or not status.isdecimal():
        raise ValueError("the response does not begin with a status")
    return int(status)


_statuses: Final = Memo(_status, 256)


_LONGEST_PART: Final = 512
"""Bytes before a content-length that are looked at in parts; more of them are no ordinary answer."""


def agrees(block: bytes, size: int) -> bool:
    """Whether a body of `size` bytes is what the block's content-length says; true where it says nothing.

    kube-apiserver puts the audit ID first, which is another one each time. What stands between that, the length and the
    end is the same for a second, so that those parts are read once, and then looked up.
    """
    forms = _forms[size]
    form = forms[0]
    at = block.find(form)
    if 3 < at < _LONGEST_PART and len(block) < 2 * _LONGEST_PART and block[0] in STATUSES:
        start = 1
        if not block[1] and (skipped := _SKIPPED[block[2]]) < at:  # a field whose name has no index: pass it over
            size_said = block[skipped] & 0x7F
            if size_said < 127:
                start = skipped + 1 + size_said
        if start <= at and _says_no_length[block[start:at]] and _says_no_length[block[at + len(form) :]]:
            return True
    if all(value in forms for value in values_of(block, *MARKS["content-length"])):
        return True
    said = [value for name, value in fields_of(block) if name == "content-length"]
    return all(value.isdecimal() and int(value) == size for value in said)


def _length_forms(size: int) -> tuple[bytes, bytes, bytes]:
    """A content-length as Go's servers put it, never indexed and in the shorter form; and its value in both."""
    text = str(size)
    code = _coded(text)
    plain, coded = _string(text), bytes((0x80 | len(code),)) + code
    return b"\x0f\x0d" + (coded if len(coded) < len(plain) else plain), plain, coded


_forms: Final = Memo(_length_forms, 4096)


def values_of(block: bytes, index: int, names: tuple[bytes, bytes]) -> Sequence[bytes]:
    """All values of a name that has an index, as they stand in the block; the other fields are passed over.

    `b""` stands for one that only the decoded block can tell, or whether it is there at all.
    """
    found: list[bytes] = []
    at, end, last = 0, len(block), len(_NAMES)
    try:
        while at < end:
            first = block[at]
            if first & 0x80:  # a whole field of the table
                known, at = _number(block, at, 0x7F)
                if known == index or known > last:
                    found.append(b"")
            elif first & 0xE0 == 0x20:  # a new size of the table
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
    except IndexError:  # it breaks off
        return (b"",)
    return found if at == end else (b"",)


def _number(block: bytes, at: int, most: int) -> tuple[int, int]:
    """RFC 7541 §5.1: a number whose first bits are those of `most`, and where it ends."""
    value = block[at] & most
    at += 1
    if value == most:
        shift = 0
        more = 0x80
        while more & 0x80:
            if shift > 28:
                raise IndexError("no number of anything that can be here")
            more = block[at]
            at += 1
            value += (more & 0x7F) << shift
            shift += 7
    return value, at


def _coded(text: str) -> bytes:
    """Huffman's code, filled up with ones (RFC 7541 §5.2). Raises KeyError for a character that no name here has."""
    bits = "".join([_CODES[letter] for letter in text])
    bits += "1" * (-len(bits) % 8)
    return int("0" + bits, 2).to_bytes(len(bits) // 8, "big")


def _uncoded(code: bytes) -> str | None:
    """The text of such a code; None where it is none, or of other characters."""
    text = bits = ""
    for bit in f"{int.from_bytes(code, 'big'):0{8 * len(code)}b}":
        bits += bit
        if (letter := _LETTERS.get(bits)) is not None:
            text += letter
            bits = ""
    return text if len(bits) < 8 and "0" not in bits else None


def fields_of(block: bytes) -> list[tuple[str, str]]:
    """The names, in lower case, and values of a block's headers. Never raises: what is no header is not there."""
    try:
        return [pair for pair in _decoded(block) if not pair[0].startswith(":")]
    except ValueError:
        return []


def _decoded(block: bytes) -> Sequence[tuple[str, str]]:
    import hpack  # a megabyte of tables: only who reads a block whole pays for it

    try:
        pairs = hpack.Decoder(max_header_list_size=_LONGEST_LIST).decode(block, raw=True)
    except (hpack.HPACKError, IndexError) as problem:
        raise ValueError(f"the headers cannot be decoded: {problem or type(problem).__name__}") from None
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


def _mark(name: str) -> tuple[int, tuple[bytes, bytes]]:
    """How a name stands in a block: as an index, zero where it has none; and spelled out, as it is or in code."""
    name = name.lower()
    try:
        code = _coded(name)
    except KeyError:
        code = b""  # which is found in all blocks
    return _NAMES.index(name) + 1 if name in _NAMES else 0, (name.encode("latin-1"), code)


MARKS: Final = Memo(_mark, 64)
"""What `values_of` takes for a name."""


def _is_without_length(part: bytes) -> bool:
    """Whether a part of a block is whole fields, none of them a content-length."""
    return not values_of(part, *MARKS["content-length"])


_SKIPPED: Final = [
    _LONGEST_PART if size == 127 or size in {len(name) for name in MARKS["content-length"][1]} else 3 + size
    for size in (*range(128), *range(128))
]
"""Where the value begins of a field with a name of this size, in a block's second place; far away for a name that may
be content-length, or whose size takes more than a byte."""
_says_no_length: Final = Memo(_is_without_length, 256)
