"""The objects of one cluster in a target, and their metadata.

| object | content |
|---|---|
| `backups/NAME/data` | a full copy, sealed |
| `backups/NAME/manifest.json` | `BackupManifest`; written after the data, so that a copy without it does not count |
| `binlog/NUMBER` | a segment of the archive: a JSON line, `SegmentHeader`, and its sealed events |
| `archive.json` | `ArchiveMark`: the time until which the archive is complete |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from mysqlcluster.backup.positions import Position, parse_position

__all__ = [
    "MARK",
    "ArchiveMark",
    "BackupManifest",
    "CatalogError",
    "SegmentHeader",
    "checked_name",
    "data_key",
    "decode",
    "encode_header",
    "manifest_key",
    "segment_key",
    "segment_number",
    "split_header",
]

MARK = "archive.json"
HEADER_BYTES = 1 << 16
"""Most bytes of a segment's header, including its line break."""
MAX_MANIFEST_BYTES = 1 << 20
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

T = TypeVar("T", bound=msgspec.Struct)


class CatalogError(ValueError):
    """An object in a target is damaged or has an unusable name; the message names it."""


class BackupManifest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A full backup whose data is in the target."""

    name: str
    source: str
    """The member that the backup was taken from."""
    started: float
    ended: float
    """Unix time. The copy contains all transactions committed before its start, and none committed after this time."""
    history: str
    """GTID set that the source had executed when the copy began."""
    size: int
    """Bytes in the target."""
    sha256: str
    encrypted: bool = False
    position: str = ""
    """GTID position of the copy; empty before the verification."""
    version: str = ""
    verified: float = 0.0
    """Unix time of a successful restore into a scratch directory; 0 before it."""


class SegmentHeader(msgspec.Struct, frozen=True, rename="camel"):
    """A segment of the archive: whole transactions of one member, in order."""

    number: int
    source: str
    after: str
    """Position of the source directly before the first transaction."""
    until: str
    """Position after the last transaction."""
    first: Mapping[int, int]
    """The number of the first transaction, by domain."""
    first_time: int
    last_time: int
    """The greatest time of a transaction."""
    transactions: int
    size: int
    """Bytes of the sealed events."""
    sha256: str
    """SHA-256 of the sealed events, in hexadecimal."""
    encrypted: bool = False

    @property
    def start(self) -> Position:
        """Position before the first transaction."""
        return parse_position(self.after)

    @property
    def end(self) -> Position:
        """Position after the last transaction."""
        return parse_position(self.until)


class ArchiveMark(msgspec.Struct, frozen=True, rename="camel"):
    """The archive contains all transactions that `source` had written to its binary log at `time`."""

    time: float
    source: str
    position: str


def checked_name(name: str) -> str:
    """Return the name of a backup after checking that it can be part of a key.

    Raises:
        CatalogError: It is not a valid name of a Kubernetes object.
    """
    if _NAME.fullmatch(name) is None or ".." in name:
        raise CatalogError(f"{name[:300]!r} is not a name of a backup")
    return name


def data_key(name: str) -> str:
    """Return the key of a full copy."""
    return f"backups/{checked_name(name)}/data"


def manifest_key(name: str) -> str:
    """Return the key of a manifest."""
    return f"backups/{checked_name(name)}/manifest.json"


def segment_key(number: int) -> str:
    """Return the key of a segment; keys sort by number."""
    return f"binlog/{number:012d}"


def segment_number(key: str) -> int | None:
    """Return the number of a segment's key, or `None` for another object."""
    found = re.fullmatch(r"binlog/(\d{12})", key)
    return int(found[1]) if found else None


def encode_header(header: SegmentHeader) -> bytes:
    """Return the first line of a segment.

    Raises:
        CatalogError: The positions have too many domains.
    """
    line = msgspec.json.encode(header) + b"\n"
    if len(line) > HEADER_BYTES:
        raise CatalogError(f"the header of segment {header.number} is larger than {HEADER_BYTES} bytes")
    return line


def split_header(key: str, start: bytes) -> tuple[SegmentHeader, bytes]:
    """Return the header of a segment, and the bytes of `start` after it.

    Raises:
        CatalogError: The bytes do not begin with a header.
    """
    line, end, rest = start.partition(b"\n")
    if not end or len(line) >= HEADER_BYTES:
        raise CatalogError(f"{key} does not begin with the header of a segment")
    return decode(key, line, SegmentHeader), rest


def decode(key: str, content: bytes, kind: type[T]) -> T:
    """Return the decoded content of a JSON object in a target.

    Raises:
        CatalogError: The content is too large or not of this kind.
    """
    if len(content) > MAX_MANIFEST_BYTES:
        raise CatalogError(f"{key} is larger than {MAX_MANIFEST_BYTES} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as problem:
        raise CatalogError(f"{key} is damaged: {problem}") from None
