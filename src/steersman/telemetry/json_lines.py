"""Log lines as JSON without structlog: the same keys in the same order.

`structlog_config` configures structlog for the same lines; a test compares both.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

__all__ = ["Fields", "JsonFormatter", "JsonLines"]

Fields = Callable[[], Mapping[str, Any]]
"""Returns the fields of the current context."""


class JsonLines:
    """Writes log lines at or above a level to a stream."""

    def __init__(self, level: int, stream: TextIO, context: Fields) -> None:
        self._level = level
        self._stream = stream
        self._context = context
        self._lock = threading.Lock()

    def write(self, level: int, name: str, component: str, event: str, values: Mapping[str, Any]) -> None:
        """Write a line, unless its level is too low.

        Args:
            level: The level as a number of the standard library.
            name: The name of the level.
            component: The part of the program that logs.
            event: The event.
            values: The fields; `exc_info` is an exception, or true for the current one.
        """
        if level < self._level:
            return
        fields = {**self._context(), "component": component, **values, "event": event}
        line = rendered(fields, name)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


class JsonFormatter(logging.Formatter):
    """Formats records of the standard library as the same lines."""

    def __init__(self, context: Fields) -> None:
        super().__init__()
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = {**self._context(), "event": record.getMessage()}
        if record.exc_info:
            fields["exc_info"] = record.exc_info[1]
        return rendered(fields, record.levelname.lower())


def rendered(fields: dict[str, Any], level: str) -> str:
    """Return a line of fields with the level, the time and the traceback of `exc_info`."""
    error = _exception(fields.pop("exc_info", None))
    fields["level"] = level
    fields["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    if error is not None:
        fields["exception"] = "".join(traceback.format_exception(error)).rstrip("\n")
    return json.dumps(fields, default=repr, ensure_ascii=False)


def _exception(given: object) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    return sys.exc_info()[1] if given else None
