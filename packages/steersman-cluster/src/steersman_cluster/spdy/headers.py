"""Header blocks: names and values with their lengths, through one zlib stream per direction (section 2.6.10).

The compressor starts from a dictionary that the specification prescribes.
"""

from __future__ import annotations

import zlib
from typing import Final

__all__ = ["HeaderReader", "HeaderWriter"]

# The dictionary of the specification: words, each after its length, and then plain text.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_CODES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_MAX_HEADER_BYTES: Final = 64 * 1024


def _dictionary() -> bytes:
    words = (word.replace("_", " ").encode() for word in _WORDS.split())
    return b"".join(len(word).to_bytes(4, "big") + word for word in words) + _CODES.encode()


class HeaderReader:
    """Reads the header blocks of one direction, in order."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=_dictionary())

    def read(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block. Raises `ValueError` for an invalid block."""
        try:
            data = self._inflate.decompress(block, _MAX_HEADER_BYTES)
        except zlib.error as problem:
            raise ValueError(f"a header block cannot be decompressed: {problem}") from None
        if self._inflate.unconsumed_tail:
            raise ValueError(f"a header block is longer than {_MAX_HEADER_BYTES} bytes")
        at, headers = 4, dict[str, str]()
        for _ in range(int.from_bytes(data[:4], "big")):
            name, at = _text(data, at)
            value, at = _text(data, at)
            headers[name] = value
        return headers


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if at + 4 > len(data) or end > len(data):
        raise ValueError("a header block ends in the middle of a header")
    return data[at + 4 : end].decode("latin-1"), end


class HeaderWriter:
    """Writes the header blocks of one direction, in order."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=_dictionary())

    def write(self, headers: dict[str, str]) -> bytes:
        """The block of these headers."""
        parts = [len(headers).to_bytes(4, "big")]
        for text in (text for pair in headers.items() for text in pair):
            encoded = text.encode("latin-1", "replace")
            parts += (len(encoded).to_bytes(4, "big"), encoded)
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
