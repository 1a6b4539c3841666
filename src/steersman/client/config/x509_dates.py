"""The end of a certificate's validity, read from its DER bytes.

The package `cryptography` would take a quarter of the memory of an idle operator for this one date. OpenSSL has parsed
the certificate before, so the walk only skips the fields in front of the date.

Source: RFC 5280, section 4.1 (Certificate); X.690, sections 8.1.2 and 8.1.3 (identifiers and lengths).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

__all__ = ["not_after"]

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_LONGEST_LENGTH_BYTES: Final = 4
_FIELDS_BEFORE_VALIDITY: Final = 3
"""The serial number, the signature algorithm and the issuer."""


class _Element(NamedTuple):
    tag: int
    start: int
    end: int


def not_after(der: bytes) -> datetime:
    """Return the end of the validity of a certificate. Raises `ValueError` for bytes that are no certificate."""
    certificate = _expect(_element(der, 0), _SEQUENCE)
    content = _expect(_element(der, certificate.start), _SEQUENCE)
    field = _element(der, content.start)
    if field.tag == _VERSION:
        field = _element(der, field.end)
    for _ in range(_FIELDS_BEFORE_VALIDITY):
        field = _element(der, field.end)
    validity = _expect(field, _SEQUENCE)
    date = _element(der, _element(der, validity.start).end)
    if date.tag not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError(f"not a date of a certificate: tag {date.tag:#04x}")
    return _date(der[date.start : date.end].decode("ascii"), date.tag)


def _date(text: str, tag: int) -> datetime:
    if tag == _UTC_TIME:  # A year of two digits is one of 1950 to 2049.
        text = ("19" if text[:1] >= "5" else "20") + text
    if len(text) != len("YYYYmmddHHMMSSZ"):
        raise ValueError("not a date of a certificate")
    year, *rest = int(text[:4]), *(int(text[at : at + 2]) for at in range(4, 14, 2))
    return datetime(year, *rest, tzinfo=UTC)


def _expect(element: _Element, tag: int) -> _Element:
    if element.tag != tag:
        raise ValueError(f"not a certificate: tag {element.tag:#04x} instead of {tag:#04x}")
    return element


def _element(der: bytes, at: int) -> _Element:
    """Return the element at a position. Raises `ValueError` if it exceeds the bytes."""
    if at + 2 > len(der):
        raise ValueError("the certificate ends early")
    length, start = der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        if not 0 < count <= _LONGEST_LENGTH_BYTES:
            raise ValueError("not a length of DER")
        length = int.from_bytes(der[start : start + count])
        start += count
    if start + length > len(der):
        raise ValueError("the certificate ends early")
    return _Element(der[at], start, start + length)
