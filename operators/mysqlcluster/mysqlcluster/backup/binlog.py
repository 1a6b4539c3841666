"""The parts of binary log events that an archive needs: boundaries, GTIDs and times, of MariaDB and MySQL.

A binary log consists of four bytes and a sequence of events. Each event has a header of 19 bytes with the time in
seconds, the type and the length. A transaction begins with a GTID event and ends before the next one. Events outside of
transactions (rotation, checkpoints, lists of GTIDs) do not change data.

Source: https://mariadb.com/kb/en/2-binlog-event-header/, https://mariadb.com/kb/en/gtid_event/,
    mysql::binlog::event::Previous_gtids_event and Gtid_event of MySQL
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from mysqlcluster.backup.positions import AnyGtid, Gtid, SourceGtid
from mysqlcluster.gtid import GtidSet

__all__ = [
    "MAGIC",
    "BinlogError",
    "Event",
    "EventReader",
    "Transaction",
    "begins_file",
    "events_of",
    "gtid_of",
    "is_outside",
    "list_of",
    "previous_of",
]

MAGIC = b"\xfebin"
MAX_EVENT_BYTES = 256 << 20
HEADER = struct.Struct("<IBIIIH")
_GTID = struct.Struct("<QIB")
_LIST_ENTRY = struct.Struct("<IIQ")
_COUNT = struct.Struct("<Q")
_ORIGIN = struct.Struct("<16sQ")
_INTERVAL = struct.Struct("<QQ")
_SOURCE_GTID = struct.Struct("<B16sQ")
_COMMIT_OFFSET = _SOURCE_GTID.size + 1 + 8 + 8
"""Bytes of a GTID event of MySQL before its times: after the GTID follow a type and two logical clocks."""
_TIME_BYTES = 7
_HAS_ORIGINAL_TIME = 1 << 55
"""The bit of the first time which says that the time of the commit on the original server follows."""

STOP, ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS = 3, 4, 15, 35
SOURCE_GTID, TAGGED_GTID = 33, 42
CHECKPOINT, GTID, GTID_LIST, START_ENCRYPTION = 161, 162, 163, 164
_OUTSIDE = frozenset({STOP, ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS, CHECKPOINT, GTID_LIST, START_ENCRYPTION})


class BinlogError(ValueError):
    """The bytes are not a binary log, or not of a supported form."""


class Event(NamedTuple):
    """One event with its header."""

    kind: int
    time: int
    """Unix time; 0 for artificial events."""
    server: int
    data: bytes

    @property
    def body(self) -> bytes:
        """The event after its header; a checksum may follow at the end."""
        return self.data[HEADER.size :]


class Transaction(NamedTuple):
    """The identity and the time of one transaction."""

    gtid: AnyGtid
    time: int
    """Unix time of the commit on the server that was the primary, in seconds."""


class EventReader:
    """Splits a stream of bytes into events; `feed` takes chunks of any size."""

    def __init__(self, *, magic: bool) -> None:
        """Start at the beginning of a file, or at an event.

        Args:
            magic: The stream begins with the four bytes of a file.
        """
        self._buffer = bytearray()
        self._magic = magic

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Add a chunk, and yield the events that are complete.

        Raises:
            BinlogError: The bytes are not a binary log, or an event is larger than 256 MiB.
        """
        self._buffer += chunk
        if self._magic:
            if len(self._buffer) < len(MAGIC):
                return
            if not self._buffer.startswith(MAGIC):
                raise BinlogError("the file does not begin as a binary log; encrypted binary logs are not supported")
            del self._buffer[: len(MAGIC)]
            self._magic = False
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            time, kind, server, length, _, _ = HEADER.unpack_from(self._buffer, start)
            if not HEADER.size <= length <= MAX_EVENT_BYTES:
                raise BinlogError(f"an event claims {length} bytes; the limit is {MAX_EVENT_BYTES}")
            if len(self._buffer) - start < length:
                break
            yield Event(kind, time, server, bytes(self._buffer[start : start + length]))
            start += length
        del self._buffer[:start]

    @property
    def rest(self) -> int:
        """Bytes of an event that is not complete."""
        return len(self._buffer)


async def events_of(chunks: AsyncIterator[bytes], *, magic: bool) -> AsyncIterator[Event]:
    """Yield the events of a stream.

    Raises:
        BinlogError: The bytes are not a binary log, or the stream ends within an event.
    """
    reader = EventReader(magic=magic)
    async for chunk in chunks:
        for event in reader.feed(chunk):
            yield event
    if reader.rest:
        raise BinlogError(f"the binary log ends within an event, {reader.rest} bytes after its start")


def begins_file(event: Event) -> bool:
    """Return whether an event is a format description, which begins a file."""
    return event.kind == FORMAT_DESCRIPTION


def is_outside(event: Event) -> bool:
    """Return whether an event is not part of a transaction, so that it ends the current one."""
    return event.kind in _OUTSIDE


def gtid_of(event: Event) -> Transaction | None:
    """Return the transaction that an event begins, or `None` if it begins none.

    Raises:
        BinlogError: The event is too short, or has a GTID with a tag.
    """
    if event.kind == TAGGED_GTID:
        raise BinlogError("GTIDs with tags are not supported")
    if event.kind not in (GTID, SOURCE_GTID):
        return None
    try:
        if event.kind == SOURCE_GTID:
            return _source_gtid(event)
        number, domain, _ = _GTID.unpack_from(event.body)
    except struct.error:
        raise BinlogError("a GTID event is too short") from None
    return Transaction(Gtid(domain, event.server, number), event.time)


def _source_gtid(event: Event) -> Transaction:
    """Return the transaction of a GTID event of MySQL."""
    _, source, number = _SOURCE_GTID.unpack_from(event.body)
    here = int.from_bytes(event.body[_COMMIT_OFFSET : _COMMIT_OFFSET + _TIME_BYTES], "little")
    original = here
    if here & _HAS_ORIGINAL_TIME:
        start = _COMMIT_OFFSET + _TIME_BYTES
        original = int.from_bytes(event.body[start : start + _TIME_BYTES], "little")
    microseconds = original & ~_HAS_ORIGINAL_TIME
    time = microseconds // 1_000_000 if microseconds else event.time
    return Transaction(SourceGtid(str(uuid.UUID(bytes=source)), number), time)


def list_of(event: Event) -> tuple[Gtid, ...] | None:
    """Return the last transaction of each domain and server before a file, from its list; `None` for another event.

    Raises:
        BinlogError: The event is too short.
    """
    if event.kind != GTID_LIST:
        return None
    body = event.body
    if len(body) < 4:
        raise BinlogError("a list of GTIDs is too short")
    count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
    if len(body) < 4 + count * _LIST_ENTRY.size:
        raise BinlogError(f"a list of {count} GTIDs is too short")
    return tuple(Gtid(*_LIST_ENTRY.unpack_from(body, 4 + index * _LIST_ENTRY.size)) for index in range(count))


def previous_of(event: Event) -> GtidSet | None:
    """Return the transactions before a file of MySQL, from its first event; `None` for another event.

    Raises:
        BinlogError: The event is too short, or has GTIDs with tags.
    """
    if event.kind != PREVIOUS_GTIDS:
        return None
    found: dict[str, list[tuple[int, int]]] = {}
    try:
        (origins,) = _COUNT.unpack_from(event.body)
        if origins >> 56:
            raise BinlogError("GTIDs with tags are not supported")
        offset = _COUNT.size
        for _ in range(origins):
            server, intervals = _ORIGIN.unpack_from(event.body, offset)
            offset += _ORIGIN.size
            pairs = found.setdefault(str(uuid.UUID(bytes=server)), [])
            for _ in range(intervals):
                first, after = _INTERVAL.unpack_from(event.body, offset)
                offset += _INTERVAL.size
                pairs.append((first, after - 1))
    except struct.error:
        raise BinlogError("a list of GTIDs is too short") from None
    return GtidSet(found)
