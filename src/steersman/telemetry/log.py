"""Structured logs: JSON in a cluster, colour on a terminal, and one reconcile ID in all lines of a reconcile.

The context (kind, namespace, name, reconcile ID) is in a context variable, so that lines of libraries that a reconcile
calls have it too.

JSON lines need no structlog. It is loaded for consoles, and once the program imports it, all lines go through it.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TextIO

from steersman.telemetry import startup_level
from steersman.telemetry.json_lines import JsonFormatter, JsonLines
from steersman.telemetry.log_context import CONTEXT, context_fields
from steersman.telemetry.structlog_import import on_import

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "CONTEXT",
    "Logger",
    "configure",
    "get_logger",
    "is_silent",
    "use_library_defaults",
]

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger(Protocol):
    """A logger of events: a stable snake_case name and fields."""

    def debug(self, event: str, **values: Any) -> None:
        """Log an event at level debug."""
        ...

    def info(self, event: str, **values: Any) -> None:
        """Log an event at level info."""
        ...

    def warning(self, event: str, **values: Any) -> None:
        """Log an event at level warning."""
        ...

    def error(self, event: str, **values: Any) -> None:
        """Log an event at level error."""
        ...

    def exception(self, event: str, **values: Any) -> None:
        """Log an event at level error with the traceback of the current exception."""
        ...


class _Settings(NamedTuple):
    level: int
    out: TextIO
    console: bool


class _State:
    """The configuration of this process's log."""

    settings: _Settings | None = None
    """The arguments of the last `configure`."""
    lines: JsonLines | None = None
    """The writer of lines without structlog."""
    structlog: ModuleType | None = None
    """`steersman.telemetry.structlog_config`, once structlog is loaded."""
    loading = False


class _Logger:
    """Logs through structlog where it is loaded, as JSON lines where logging is configured, and else not at all."""

    __slots__ = ("_component", "_structured")

    def __init__(self, component: str) -> None:
        self._component = component
        self._structured: Any = None

    def debug(self, event: str, **values: Any) -> None:
        if _State.structlog is not None:
            self._through(_State.structlog).debug(event, **values)
        elif _State.lines is not None:
            _State.lines.write(10, "debug", self._component, event, values)

    def info(self, event: str, **values: Any) -> None:
        if _State.structlog is not None:
            self._through(_State.structlog).info(event, **values)
        elif _State.lines is not None:
            _State.lines.write(20, "info", self._component, event, values)

    def warning(self, event: str, **values: Any) -> None:
        if _State.structlog is not None:
            self._through(_State.structlog).warning(event, **values)
        elif _State.lines is not None:
            _State.lines.write(30, "warning", self._component, event, values)

    def error(self, event: str, **values: Any) -> None:
        if _State.structlog is not None:
            self._through(_State.structlog).error(event, **values)
        elif _State.lines is not None:
            _State.lines.write(40, "error", self._component, event, values)

    def exception(self, event: str, **values: Any) -> None:
        if _State.structlog is not None:
            self._through(_State.structlog).exception(event, **values)
        elif _State.lines is not None:
            _State.lines.write(40, "error", self._component, event, {"exc_info": True, **values})

    def _through(self, config: ModuleType) -> Any:
        if self._structured is None:
            self._structured = config.logger_of(self._component)
        return self._structured


def get_logger(name: str) -> Logger:
    """Return the logger of a module or package; it writes nothing until the program configures logging.

    Calls below the configured level are cheap.
    """
    return _Logger(name)


def configure(*, level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """Configure logging for the process.

    `level` is debug, info, warning or error; `format` is "json", "console" or "auto" (console on a terminal). Records
    of the standard library at level warning and above go to the same stream. Raises `ValueError` for other values.
    """
    if level not in _LEVELS:
        raise ValueError(f"log level {level!r}: use one of {', '.join(_LEVELS)}")
    if format not in ("auto", "json", "console"):
        raise ValueError(f"log format {format!r}: use auto, json or console")
    out = stream or sys.stderr
    console = format == "console" or (format == "auto" and out.isatty())
    _State.settings = settings = _Settings(_LEVELS[level], out, console)
    if console or _State.structlog is not None:
        _use_structlog()
        return
    _State.lines = JsonLines(settings.level, out, context_fields)
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter(context_fields))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(settings.level, logging.WARNING))


def use_library_defaults() -> None:
    """Configure structlog for a program that has not configured it: Steersman writes no log lines.

    Lines of other loggers go where structlog writes them by default, with tracebacks that do not show the values of
    local variables: those may contain Secrets and tokens.
    """
    from steersman.telemetry import structlog_config

    structlog_config.use_library_defaults()


def is_silent() -> bool:
    """Return whether Steersman writes no log lines, because the program has not configured logging."""
    if _State.structlog is None:
        return _State.lines is None
    from steersman.telemetry import structlog_config

    return structlog_config.is_silent()


def _use_structlog() -> None:
    """Send all lines through structlog, with the settings of the last `configure`."""
    if _State.loading:
        return  # The import of structlog by this function itself.
    _State.loading = True
    try:
        from steersman.telemetry import structlog_config
    finally:
        _State.loading = False
    _State.structlog = structlog_config
    if (settings := _State.settings) is not None:
        structlog_config.configure(settings.level, settings.out, console=settings.console)
    else:
        structlog_config.use_library_defaults()


on_import(_use_structlog)
if startup_level.level is not None:
    configure(level=startup_level.level, format="console")
