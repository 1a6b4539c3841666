"""Choosing lines of a container's log: since, tail, limit, timestamps, stream. Pure: lines in, bytes out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from steersman_cluster.kubelet import STDERR, STDOUT, LogOptions

__all__ = ["MESSAGE_LOG_BYTES", "MESSAGE_LOG_LINES", "LogLine", "selected", "shown", "wanted"]

MESSAGE_LOG_LINES: Final = 80
MESSAGE_LOG_BYTES: Final = 2048
"""How much of the end of a log a termination message shows (`FallbackToLogsOnError`), as with kubelets."""


class LogLine(NamedTuple):
    """One line as it was written; `text` keeps its line feed, and has none where the writer stopped in mid-line."""

    at: float
    stream: int
    text: bytes


def stamp(at: float) -> str:
    """RFC 3339 with nanoseconds, as kubelets write it."""
    whole = int(at)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int((at - whole) * 1e9):09d}Z"


def wanted(line: LogLine, options: LogOptions, now: float) -> bool:
    """Whether a line is of the stream and the time that are asked for."""
    if options.since_seconds is not None and line.at < now - options.since_seconds:
        return False
    if options.since_time is not None and line.at < options.since_time:
        return False
    return not (
        (options.stream == "Stdout" and line.stream != STDOUT) or (options.stream == "Stderr" and line.stream != STDERR)
    )


def shown(line: LogLine, options: LogOptions) -> bytes:
    """A line as it is sent."""
    return f"{stamp(line.at)} ".encode() + line.text if options.timestamps else line.text


def selected(lines: Iterable[LogLine], options: LogOptions, now: float) -> Iterator[bytes]:
    """The lines of a log that are asked for, up to the limit of bytes, the last `tail_lines` of them."""
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
