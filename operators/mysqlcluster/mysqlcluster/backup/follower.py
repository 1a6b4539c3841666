"""The continuous archive: whole transactions of one member's binary log, in segments.

The open segment is rewritten as it grows, so that the archive is about a second behind and has few objects. After a
restart, or a change of the followed member, the history in the last header determines where to continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from steersman.logs import get_logger

from mysqlcluster.backup.agent_binlogs import BinlogFile, BinlogList
from mysqlcluster.backup.archive import Archive
from mysqlcluster.backup.binlog import (
    MAGIC,
    BinlogError,
    Event,
    EventReader,
    Transaction,
    begins_file,
    gtid_of,
    is_outside,
    previous_of,
)
from mysqlcluster.backup.catalog import ArchiveMark, CatalogError, SegmentHeader
from mysqlcluster.backup.histories import History
from mysqlcluster.backup.members import MemberError, Members
from mysqlcluster.backup.positions import Gtid
from mysqlcluster.backup.stores import ExistingObjectError, StoreError

__all__ = ["Follower"]

_log = get_logger("mysqlcluster.archiver")

POLL_SECONDS = 0.5
RETRY_SECONDS = 1.0
SEGMENT_BYTES = 4 << 20
SEGMENT_SECONDS = 300.0
MARK_SECONDS = 2.0
"""Least time between two marks; a point in time can be restored after a later mark is written."""
IDLE_MARK_SECONDS = 10.0
"""Time between two marks while no transaction is written."""
EMPTY = SegmentHeader(0, "", "", "", {}, 0, 0, 0, 0, "")


class Segment:
    """The open segment: a growing file, and its header."""

    def __init__(self, file: Path, number: int, source: str, history: History, description: bytes, now: float) -> None:
        self.file = file
        self.opened = now
        self.header = msgspec.structs.replace(
            EMPTY, number=number, source=source, after=str(history), until=str(history)
        )
        self._out = open(file, "wb")  # noqa: SIM115 - closed by `close`
        self._out.write(MAGIC + description)
        self.size = self._out.tell()
        """Bytes up to the end of the last whole transaction."""
        self.stored = 0
        """The number of transactions that the target already contains."""

    def write(self, event: Event) -> None:
        """Add an event of the current transaction."""
        self._out.write(event.data)

    def end_transaction(self, transaction: Transaction, history: History) -> None:
        """Add a transaction to the header after all its events are written."""
        self._out.flush()
        self.size = self._out.tell()
        known = self.header
        gtid, first = transaction.gtid, known.first
        if isinstance(gtid, Gtid) and gtid.domain not in first:
            first = {**first, gtid.domain: gtid.number}
        self.header = msgspec.structs.replace(
            known,
            until=str(history),
            first=first,
            first_time=known.first_time or transaction.time,
            last_time=max(known.last_time, transaction.time),
            transactions=known.transactions + 1,
        )

    def close(self) -> None:
        """Remove the file."""
        self._out.close()
        self.file.unlink(missing_ok=True)


class Follower:
    """Follows the binary log of one member at a time."""

    def __init__(
        self, archive: Archive, members: Members, scratch: Path, *, now: Callable[[], float] = time.time
    ) -> None:
        """Store the arguments; `run` starts to follow.

        Args:
            archive: The archive that segments are written to.
            members: Access to the agents.
            scratch: An existing directory for the open segment.
            now: The time in seconds.
        """
        self._archive = archive
        self._members = members
        self._scratch = scratch
        self._now = now
        self.source = ""
        self.error = ""
        """Why the archive does not continue; empty if it does."""
        self.mark: ArchiveMark | None = None
        self._changed = asyncio.Event()
        self._history = self._history_of("")
        self._number = 0
        self._fresh = True
        self._segment: Segment | None = None
        self._pending: Transaction | None = None
        self._skipping = False
        self._description = b""
        self._stream = 0
        self._file: BinlogFile | None = None
        self._reader = EventReader(magic=True)

    def _history_of(self, text: str) -> History:
        return self._archive.dialect.history(text)

    def follow(self, member: str) -> None:
        """Follow another member; an empty name stops following."""
        if member != self.source:
            _log.info("archive_source", member=member or "none")
            self.source = member
            self._changed.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        loaded = False
        try:
            while True:
                self._changed.clear()
                delay = POLL_SECONDS
                try:
                    if not loaded:
                        await self._load()
                        loaded = True
                    if self.source:
                        await self._round(self.source)
                        self.error = ""
                except ExistingObjectError:
                    # No transaction is lost: this process reads the other process's segments, and continues after them.
                    self.error = "another archiver writes to this target"
                    _log.warning("archive_contested", member=self.source, problem=self.error)
                    self._drop()
                    loaded, delay = False, RETRY_SECONDS
                except (MemberError, StoreError, CatalogError, BinlogError) as problem:
                    if self.error != str(problem):
                        _log.warning("archive_interrupted", member=self.source, problem=str(problem))
                    self.error = str(problem)
                    self._drop()
                    delay = RETRY_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._changed.wait()
                        self._drop()
        finally:
            self._drop()

    async def _load(self) -> None:
        segments = await self._archive.segments(fresh=True)
        if segments:
            self._history = self._history_of(segments[-1].until)
            self._number = segments[-1].number
            self._fresh = False
        self.mark = await self._archive.mark()

    def _drop(self) -> None:
        """Reset the position in the binary log; the next round derives it from the history."""
        if self._segment is not None:
            # Transactions that the target does not contain yet are read again.
            if self._segment.stored < self._segment.header.transactions:
                self._history = self._history_of(self._stored_until(self._segment))
            self._segment.close()
        self._segment, self._pending, self._file = None, None, None

    def _stored_until(self, segment: Segment) -> str:
        return self._until if segment.stored else segment.header.after

    _until = ""

    async def _round(self, member: str) -> None:
        """Archive all transactions that the member has in its binary log."""
        listing = await self._members.binlogs(member, positions=self._file is None)
        if self._file is None:
            self._locate(listing)
        names = [each.name for each in listing.files]
        if listing.stream != self._stream or self._file is None or self._file.name not in names:
            self._drop()
            return
        for file in listing.files[names.index(self._file.name) :]:
            await self._read(member, file)
        await self._store()
        await self._mark(ArchiveMark(listing.time, member, str(self._history)))

    async def _mark(self, mark: ArchiveMark) -> None:
        if self.mark is not None:
            interval = IDLE_MARK_SECONDS if mark.position == self.mark.position else MARK_SECONDS
            if mark.time - self.mark.time < interval:
                return
        await self._archive.write_mark(mark)
        self.mark = mark

    def _locate(self, listing: BinlogList) -> None:
        if not listing.files:
            raise MemberError(f"{self.source} has no binary log")
        known = [file for file in listing.files if self._history.contains(file.after)]
        if self._fresh:  # a new archive begins here; the first full backup is taken later
            first = listing.files[-1]
            self._history.begin_after(first.after)
        elif known:
            first = known[-1]
        else:
            first = listing.files[0]
            _log.error("archive_gap", member=self.source, after=str(self._history), until=first.after)
            self._history.begin_after(first.after)
        self._fresh = False
        self._stream = listing.stream
        self._begin(first)

    def _begin(self, file: BinlogFile) -> None:
        self._file = BinlogFile(file.name, 0)
        self._reader = EventReader(magic=True)
        self._pending = None

    async def _read(self, member: str, file: BinlogFile) -> None:
        assert self._file is not None
        if file.name != self._file.name:
            self._begin(file)
        start = self._file.size
        if file.size > start:
            async for chunk in self._members.events(member, self._stream, file, start):
                for event in self._reader.feed(chunk):
                    await self._take(event)
            if self._reader.rest:
                raise BinlogError(f"{member}: {file.name} does not end with an event at {file.size}")
            self._end_transaction()
        self._file = file

    async def _take(self, event: Event) -> None:
        if begins_file(event):
            self._description = event.data
            await self._seal()
        previous = previous_of(event)
        if previous is not None:
            self._history.begin_file(previous)
        transaction = gtid_of(event)
        if transaction is not None or is_outside(event):
            self._end_transaction()
        if transaction is not None:
            await self._begin_transaction(transaction)
        if self._pending is not None and self._segment is not None:
            self._segment.write(event)

    async def _begin_transaction(self, transaction: Transaction) -> None:
        if self._history.holds(transaction.gtid):
            self._history.include(transaction.gtid)
            return
        if self._history.conflicts(transaction.gtid):
            await self._seal()
            _log.warning("archive_abandons", first=str(transaction.gtid), history=str(self._history))
            self._history.abandon(transaction.gtid)
        if self._segment is not None and self._segment.size >= SEGMENT_BYTES:
            await self._seal()
        if self._segment is None:
            self._number += 1
            file = self._scratch / f"segment-{self._number}"
            self._segment = Segment(file, self._number, self.source, self._history, self._description, self._now())
        self._pending = transaction

    def _end_transaction(self) -> None:
        if self._pending is not None and self._segment is not None:
            self._history.include(self._pending.gtid)
            self._segment.end_transaction(self._pending, self._history)
        self._pending = None

    async def _seal(self) -> None:
        """End the open segment."""
        await self._store()
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    async def _store(self) -> None:
        """Write the open segment to the target, if it has grown."""
        segment = self._segment
        if segment is None:
            return
        if segment.header.transactions > segment.stored:
            await self._archive.write_segment(segment.header, segment.file, segment.size)
            segment.stored = segment.header.transactions
            self._until = segment.header.until
        if self._pending is None and self._now() - segment.opened > SEGMENT_SECONDS:
            segment.close()
            self._segment = None
