"""The log of a container on disk: one record for each line, with time and stream, in rotated files.

The format is that of the container runtime interface: `<RFC 3339> stdout F <line>`; `P` marks a part of a line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from steersman_cluster.kubelet import STDERR, STDOUT
from steersman_cluster.nodes.logs import LogLine, stamp

__all__ = ["LogFile", "last_text", "line_of", "read_log"]

_LONGEST: Final = 16 * 1024
_MAX_HEAD_BYTES: Final = 64
"""The longest head of a record: time, stream and tag."""
_NAMES: Final = {STDOUT: b"stdout", STDERR: b"stderr"}
_STREAMS: Final = {b"stdout": STDOUT, b"stderr": STDERR}


class LogFile:
    """Writes the log of one run: the current file and `files - 1` older ones of at most `size` bytes each."""

    def __init__(self, path: Path, clock: Callable[[], float], *, size: int = 10 << 20, files: int = 5) -> None:
        self.path = path
        self.closed = False
        self.followers: set[asyncio.Queue[LogLine | None]] = set()
        """Queues that receive all new lines, and `None` at the end."""
        self._clock = clock
        self._size = size
        self._files = files
        self._rest = {STDOUT: b"", STDERR: b""}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab")

    def write(self, stream: int, data: bytes) -> None:
        """Add output; a line is recorded when it is complete or too long."""
        if self.closed:
            return
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        while len(rest) > _LONGEST:
            lines_part, rest = rest[:_LONGEST], rest[_LONGEST:]
            self._record(stream, lines_part, whole=False)
        self._rest[stream] = rest
        for line in lines:
            self._record(stream, line, whole=True)
        self._file.flush()

    def close(self) -> None:
        """Record the unfinished lines and end the followers. Safe to call twice."""
        if self.closed:
            return
        for stream, rest in self._rest.items():
            if rest:
                self._record(stream, rest, whole=False)
        self.closed = True
        self._file.close()
        for follower in self.followers:
            follower.put_nowait(None)

    def _record(self, stream: int, line: bytes, *, whole: bool) -> None:
        at = self._clock()
        head = b"%s %s %s " % (stamp(at).encode(), _NAMES[stream], b"F" if whole else b"P")
        if self._file.tell() + len(head) + len(line) > self._size:
            self._rotate()
        self._file.write(head + line + b"\n")
        for follower in self.followers:
            follower.put_nowait(LogLine(at, stream, line + (b"\n" if whole else b"")))

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._files - 1, 0, -1):
            older = self.path if number == 1 else Path(f"{self.path}.{number - 1}")
            if older.exists():
                older.replace(f"{self.path}.{number}")
        self._file = self.path.open("ab")


def read_log(path: Path, *, files: int = 5) -> Iterator[LogLine]:
    """Yield all lines of a log, oldest first; none if the log does not exist."""
    every = [*(Path(f"{path}.{number}") for number in range(files - 1, 0, -1)), path]
    for each in every:
        if not each.exists():
            continue
        with each.open("rb") as file:
            for record in file:
                yield line_of(record)


def line_of(record: bytes) -> LogLine:
    """Return the line of a record."""
    at, stream, tag, text = record.rstrip(b"\n").split(b" ", 3)
    when = datetime.fromisoformat(at.decode()[:26] + "+00:00").timestamp()
    return LogLine(when, _STREAMS[stream], text + (b"\n" if tag == b"F" else b""))


def last_text(path: Path, *, lines: int, size: int) -> bytes:
    """Return the last `size` bytes of the last `lines` lines of a log, across its rotated files."""
    records: list[bytes] = []
    for each in (path, Path(f"{path}.1")):
        if len(records) < lines:
            records = [*_last_records(each, lines - len(records), size), *records]
    return b"".join(line_of(record).text for record in records)[-size:]


def _last_records(path: Path, lines: int, size: int) -> list[bytes]:
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start = max(0, end - size - 2 * _LONGEST - lines * _MAX_HEAD_BYTES)
            file.seek(start)
            records = file.read(end - start).split(b"\n")[:-1]
    except OSError:
        return []
    return records[1 if start else 0 :][-lines:]
