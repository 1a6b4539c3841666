"""Selects lines of a container's log: since, tail, limit, timestamps, stream. Pure functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from steersman_cluster.kubelet import STDERR, STDOUT, LogOptions

__all__ = ["MESSAGE_LOG_BYTES", "MESSAGE_LOG_LINES", "LogLine", "selected", "shown", "wanted"]

MESSAGE_LOG_LINES: Final = 80
MESSAGE_LOG_BYTES: Final = 2048
"""The maximum length of the log's end in a termination message (`FallbackToLogsOnError`), as in the kubelet."""


class LogLine(NamedTuple):
    """One written line; `text` includes its line feed, and has none if the writer stopped within the line."""

    at: float
    stream: int
    text: bytes


def stamp(at: float) -> str:
    """Return the time in RFC 3339 with nanoseconds, as the kubelet writes it."""
    whole = int(at)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int((at - whole) * 1e9):09d}Z"


def wanted(line: LogLine, options: LogOptions, now: float) -> bool:
    """Return whether a line has the requested stream and time."""
    if options.since_seconds is not None and line.at < now - options.since_seconds:
        return False
    if options.since_time is not None and line.at < options.since_time:
        return False
    return not (
        (options.stream == "Stdout" and line.stream != STDOUT) or (options.stream == "Stderr" and line.stream != STDERR)
    )


def shown(line: LogLine, options: LogOptions) -> bytes:
    """Return the bytes of a line in a response."""
    return f"{stamp(line.at)} ".encode() + line.text if options.timestamps else line.text


def selected(lines: Iterable[LogLine], options: LogOptions, now: float) -> Iterator[bytes]:
    """Return the requested lines of a log, up to the limit of bytes, and only the last `tail_lines`."""
    chosen: Iterable[LogLine] = (line for line in lines if wanted(line, options, now))
    if options.tail_lines is not None:
        chosen = deque(chosen, maxlen=options.tail_lines)
    left = options.limit_bytes
    for line in chosen:
        text = shown(line, options)
        if left is not None:
            text = text[:left]
            left -= len(text)
        if text:
            yield text
        if left == 0:
            return
